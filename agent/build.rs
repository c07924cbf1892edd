//! Has the linker put together what an ordinary node runs: of a function that runs the system maps sixteen pages, and half of the
//! functions never run. `order.txt` names those that do (`make order`), and docs/memory.md says more.

use std::{env, error::Error, fmt::Write, fs, path::PathBuf};

/// Where the hash in the name of a Rust function begins.
const HASH: &str = "17h";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=order.txt");
    let is_for_linux = env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if !is_for_linux || env::var("PROFILE")? != "release" {
        return Ok(());
    }
    let mut script = "SECTIONS { .text.ordinary : {\n".to_owned();
    for name in fs::read_to_string("order.txt")?.lines() {
        // a function of which there are several copies has a number behind its name
        let ends: &[_] = if name.ends_with(HASH) { &["*"] } else { &["", ".*"] };
        for end in ends {
            writeln!(script, "*(.text.{name}{end} .text.unlikely.{name}{end})")?;
        }
    }
    script += "} } INSERT BEFORE .text;\n";
    let path = PathBuf::from(env::var("OUT_DIR")?).join("ordinary.ld");
    fs::write(&path, script)?;
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", path.display());
    Ok(())
}
