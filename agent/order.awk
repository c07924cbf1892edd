# Which functions of a program have run, one a line, without hashes and numbers. Reads what nm(1) says of the program, from standard
# input, and then what callgrind has counted. Where several functions are one piece of code, all their names are given.
FILENAME == "-" { if ($2 ~ /[tTwW]/) at[$3] = $1; next }
/^c?fn=\([0-9]+\) / { name = $2; sub(/'.*/, "", name); if (name in at) ran[at[name]] = 1 }
END {
  for (name in at)
    if (at[name] in ran) { sub(/17h[0-9a-f]+E.*/, "17h", name); sub(/\.[0-9]+$/, "", name); print name }
}
