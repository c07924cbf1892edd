//! The functions of [`tokio::fs`] that the programs use. In a simulation they run like all other blocking work.

use std::{fs, io, path::Path};

use crate::spawn_blocking;

async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

macro_rules! functions {
    ($($name:ident -> $result:ty;)*) => {$(
        #[doc = concat!("As [`std::fs::", stringify!($name), "`].")]
        ///
        /// # Errors
        /// The same.
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$result> {
            let path = path.as_ref().to_owned();
            run(move || fs::$name(path)).await
        }
    )*};
}

functions! {
    create_dir_all -> ();
    read -> Vec<u8>;
    read_to_string -> String;
    remove_file -> ();
}

/// As [`std::fs::exists`].
///
/// # Errors
/// The same.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    run(move || fs::exists(path)).await
}

/// As [`std::fs::write`].
///
/// # Errors
/// The same.
pub async fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, content) = (path.as_ref().to_owned(), content.as_ref().to_owned());
    run(move || fs::write(path, content)).await
}
