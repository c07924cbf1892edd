//! The digest by which generated code names its sources.

use std::{fs, io, path::Path};

/// Returns the SHA-256 of `proto/NAME.proto`, the files in `proto/NAME/` and the generator below `root`, in hexadecimal digits.
pub(crate) fn of(root: &Path, name: &str) -> io::Result<String> {
    let mut files = vec![
        root.join("examples/generate.rs"),
        root.join(format!("proto/{name}.proto")),
    ];
    if let Ok(parts) = fs::read_dir(root.join("proto").join(name)) {
        for part in parts {
            files.push(part?.path());
        }
    }
    files.sort();
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for file in files {
        context.update(&fs::read(file)?);
    }
    Ok(context
        .finish()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
