# Which functions of a program have run: each name, without what changes from build to build, and 1 or 0. Reads what nm(1) says of the
# program, from standard input, and then what callgrind has counted. Where several functions are one piece of code, all of them ran.

# The hash of a crate is in the names, and is another one with another version or compiler.
# Source: https://rust-lang.github.io/rfcs/2603-rust-symbol-name-mangling-v0.html
function stable(name,   hash) {
  sub(/(\.(llvm\.)?[0-9]+)+$/, "", name)
  while (match(name, /Cs[0-9A-Za-z]+_/)) {
    # its length stays: what is said once is referred to by its place in the name
    hash = substr(name, RSTART + 2, RLENGTH - 3)
    gsub(/./, "?", hash)
    name = substr(name, 1, RSTART + 1) hash substr(name, RSTART + RLENGTH - 1)
  }
  return name
}

FNR == NR { if ($2 ~ /[tTwW]/) at[$3] = $1; next }
/^c?fn=\([0-9]+\) / { name = $2; sub(/'.*/, "", name); if (name in at) ran[at[name]] }
END {
  for (name in at) if (at[name] in ran) hot[stable(name)]; else cold[stable(name)]
  for (name in hot) print name, 1
  for (name in cold) if (!(name in hot)) print name, 0
}
