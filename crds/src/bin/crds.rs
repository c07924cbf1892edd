//! Prints all definitions as one stream of YAML documents: `crds | kubectl apply -f -`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    let mut out = io::stdout().lock();
    for crd in crds::all() {
        let written = crds::to_yaml(&crd).map_err(io::Error::other);
        if let Err(error) = written.and_then(|yaml| writeln!(out, "---\n{}", yaml.trim_end())) {
            // the reader has gone, so there is nobody to tell
            if error.kind() == io::ErrorKind::BrokenPipe {
                return ExitCode::SUCCESS;
            }
            let _ = writeln!(io::stderr(), "cannot print the definitions: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
