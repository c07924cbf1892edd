//! Has the linker put together what an ordinary node runs: of a function that runs the system maps sixteen pages, and half of the
//! functions never run. `order/names.txt` names those that do (`make order`), and docs/memory.md says more.

use std::{env, error::Error, fmt::Write, fs, path::PathBuf};

/// What runs, too, and is not named: what has no section of its own (assembly, the program's start), and what is for
/// instructions that valgrind's processor lacks.
const BESIDE: &str =
    "*(.text .text.startup .text.startup.*)\n*(.text._RNv*4ring4aead* .text._RNv*_4sha18compress*)\n";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=order/names.txt");
    let is_for_linux = env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if !is_for_linux || env::var("PROFILE")? != "release" {
        return Ok(());
    }
    let mut script = "SECTIONS { .text.ordinary : {\n".to_owned();
    for name in fs::read_to_string("order/names.txt")?.lines() {
        // a function of which there are several copies has a number behind its name
        let ends: &[_] = if name.ends_with('*') { &[""] } else { &["", ".*"] };
        for end in ends {
            writeln!(script, "*(.text.{name}{end} .text.unlikely.{name}{end})")?;
        }
    }
    script += BESIDE;
    script += "} } INSERT BEFORE .text;\n";
    let path = PathBuf::from(env::var("OUT_DIR")?).join("ordinary.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", path.display());
    Ok(())
}
