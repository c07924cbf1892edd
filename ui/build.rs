//! Compresses the files of the page, and writes the table of them that the library includes.

use std::{env, fmt::Write as _, fs, io, path::Path};

use flate2::{Compression, GzBuilder};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=page");
    let variable = |name: &str| env::var(name).map_err(io::Error::other);
    let page = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("page");
    let output = variable("OUT_DIR")?;
    let output = Path::new(&output);
    let mut names = Vec::new();
    for folder in ["", "vendor/"] {
        for entry in fs::read_dir(page.join(folder))? {
            let name = entry?.file_name().into_string();
            let name = name.map_err(|name| io::Error::other(format!("{name:?} is no UTF-8")))?;
            // licences are in the repository, and are no part of the page
            if content_type(&name).is_some() {
                names.push(format!("{folder}{name}"));
            }
        }
    }
    names.sort();
    let mut table = "[\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        let text = fs::read(page.join(name))?;
        let file = output.join(format!("{number}.gz"));
        let mut encoder = GzBuilder::new().write(fs::File::create(&file)?, Compression::best());
        io::Write::write_all(&mut encoder, &text)?;
        encoder.finish()?;
        let content_type = content_type(name).unwrap_or_default();
        let tag = format!("\"{:08x}-{:x}\"", crc32fast::hash(&text), text.len());
        let line = writeln!(
            table,
            "PageFile {{ name: {name:?}, content_type: {content_type:?}, tag: {tag:?}, gzip: include_bytes!({file:?}) }},"
        );
        line.map_err(io::Error::other)?;
    }
    table.push(']');
    fs::write(output.join("files.rs"), table)
}

/// Returns the content type of a file of the page; `None` if it is none.
fn content_type(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
