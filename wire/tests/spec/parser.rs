//! The documents are valid for AsyncAPI's own parser, and for the schema of OpenAPI.

use std::{path::PathBuf, process::Command};

use super::{DOCUMENTS, root};

/// Validates the AsyncAPI documents that are its arguments, and prints what is wrong with each.
const SCRIPT: &str = r#"
const { Parser } = require('@asyncapi/parser');
const fs = require('fs');
(async () => {
  let errors = 0;
  for (const file of process.argv.slice(1)) {
    const { document, diagnostics } = await new Parser().parse(fs.readFileSync(file, 'utf8'));
    for (const one of diagnostics.filter((one) => one.severity === 0)) {
      errors += 1;
      console.log(`${file}: ${one.message} at ${one.path.join('.')}`);
    }
    if (!document) errors += 1;
    else console.log(`${file}: ${document.messages().length} messages, ${document.operations().length} operations`);
  }
  process.exit(errors ? 1 : 0);
})();
"#;

/// The same for OpenAPI.
const OPENAPI_SCRIPT: &str = r#"
(async () => {
  const { Validator } = await import(`${process.env.NODE_PATH}/@seriousme/openapi-schema-validator/index.js`);
  for (const file of process.argv.slice(1)) {
    const result = await new Validator().validate(file);
    if (!result.valid) { console.log(JSON.stringify(result.errors)); process.exit(1); }
    console.log(`${file}: valid`);
  }
})();
"#;

/// Returns where `make needs` has installed the parser.
fn modules() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    own.ancestors()
        .map(|directory| directory.join("node/node_modules"))
        .find(|path| path.join("@asyncapi/parser").exists())
}

#[test]
fn asyncapi_documents_are_valid_for_the_parser_of_asyncapi() {
    assert_valid(SCRIPT, "asyncapi", 3);
}

#[test]
fn openapi_document_has_the_schema_of_openapi() {
    assert_valid(OPENAPI_SCRIPT, "openapi", 1);
}

/// Runs a script that prints a line for each valid document whose file name contains `form`.
fn assert_valid(script: &str, form: &str, count: usize) {
    let modules = modules().unwrap_or_else(|| {
        panic!("no @asyncapi/parser beside the build directory: run `make needs` first")
    });
    let documents = DOCUMENTS
        .iter()
        .filter(|(file, _)| file.contains(form))
        .map(|(file, _)| root().join("spec").join(file));
    let output = Command::new("node")
        .arg("-e")
        .arg(script)
        .args(documents)
        .env("NODE_PATH", modules)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert_eq!(text.lines().count(), count, "{text}");
}
