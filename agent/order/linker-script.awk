# A linker script that puts the functions that names.txt has side by side, before all others, in a section of their own. A function that is not
# named works as ever, and a name that no function has is passed over. Source: https://sourceware.org/binutils/docs/ld/SECTIONS.html

BEGIN { print "SECTIONS { .text.ordinary : {" }
/\*$/ { print "*(.text." $0 " .text.unlikely." $0 ")"; next }
# a function of which there are several copies has a number behind its name
{ print "*(.text." $0 " .text.unlikely." $0 " .text." $0 ".* .text.unlikely." $0 ".*)" }
END {
  # What runs, too, and is not named: what has no section of its own (assembly, the program's start), and what is for instructions that
  # valgrind's processor lacks.
  print "*(.text .text.startup .text.startup.* .text._RNv*4ring4aead* .text._RNv*_4sha18compress*)"
  print "} } INSERT BEFORE .text;"
}
