//! Percent escapes in paths of requests.

use percent_encoding::percent_decode_str;

/// Decodes percent escapes: as in kube-apiserver, an escaped slash ends a segment as any other does. An invalid escape is kept
/// unchanged.
pub(super) fn decode(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}
