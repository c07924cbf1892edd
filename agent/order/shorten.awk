# The shortest beginnings of names, with `*` behind, that those of all functions that ran have, and of no other; where there is none, the
# name. Reads the sorted lines of ran.awk: a name's nearest neighbours among the others are what it has to be told from.

function common(a, b,   n) {
  while (n < length(a) && substr(a, n + 1, 1) == substr(b, n + 1, 1)) n++
  return n
}

{ name[NR] = $1; ran[NR] = $2 }
END {
  for (i = 1; i <= NR; i++) if (ran[i]) before[i] = other; else other = name[i]
  other = ""
  for (i = NR; i >= 1; i--) {
    if (!ran[i]) { other = name[i]; continue }
    n = common(name[i], before[i]); m = common(name[i], other)
    if (m > n) n = m
    print n < length(name[i]) ? substr(name[i], 1, n + 1) "*" : name[i]
  }
}
