//! `fuzz TARGET FILE...`: runs inputs that the fuzzer has left. Built with coverage (`make fuzz`) it is the fuzzer itself, see
//! [`guided`].

#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(feature = "libfuzzer")]
mod guided;

#[cfg(not(feature = "libfuzzer"))]
fn main() -> anyhow::Result<()> {
    use anyhow::Context;

    let mut arguments = std::env::args().skip(1);
    let name = arguments
        .next()
        .context("which target? `fuzz TARGET FILE...` runs inputs of it")?;
    let target = fuzz::target(&name)?;
    let mut arguments = arguments.peekable();
    anyhow::ensure!(
        arguments.peek().is_some(),
        "which inputs? `make fuzz TARGET={name}` looks for some"
    );
    for file in arguments {
        let input = std::fs::read(&file).with_context(|| format!("{file} cannot be read"))?;
        (target.run)(&input);
    }
    Ok(())
}
