//! Content negotiation: in which shape the caller wants its answer. Every answer is made as JSON; `yaml` is made of it.

use http::{HeaderMap, header};

/// The media type of YAML.
pub const YAML: &str = "application/yaml";

/// The shape of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The objects themselves.
    Objects,
    /// `as=Table`: rows and columns, as kubectl prints them.
    Table,
    /// `as=PartialObjectMetadata` or `…List`: only the metadata.
    Metadata,
}

/// The first shape that the caller accepts and this server has; `None` if there is none (406).
pub fn shape(headers: &HeaderMap) -> Option<Shape> {
    let mut ranges = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .peekable();
    if ranges.peek().is_none() {
        return Some(Shape::Objects);
    }
    ranges.flat_map(|value| value.split(',')).find_map(range)
}

/// Whether the caller takes objects at all, be it after another shape.
pub fn takes_objects(headers: &HeaderMap) -> bool {
    let mut ranges = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .peekable();
    ranges.peek().is_none()
        || ranges
            .flat_map(|value| value.split(','))
            .any(|one| range(one) == Some(Shape::Objects))
}

/// Whether the caller asks for discovery in one answer (`APIGroupDiscoveryList`).
pub fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepts = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|range| {
        let has = |parameter: &str| range.split(';').any(|part| part.trim() == parameter);
        has("as=APIGroupDiscoveryList") && has("g=apidiscovery.k8s.io") && has("v=v2")
    })
}

/// Whether the caller takes OpenAPI v2 as protobuf, which is all that client-go asks for.
pub fn wants_protobuf_openapi(headers: &HeaderMap) -> bool {
    let accepts = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|range| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        media_type.starts_with("application/com.github.proto-openapi.spec.v2")
            && media_type.ends_with("v1.0+protobuf")
    })
}

fn range(range: &str) -> Option<Shape> {
    let mut parts = range.split(';').map(str::trim);
    // clients that would rather have protobuf also take JSON, further down their list
    let media_type = parts.next()?;
    if !matches!(
        media_type,
        "application/json" | YAML | "application/*" | "*/*" | ""
    ) {
        return None;
    }
    let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name| {
        parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    };
    if media_type == YAML && parameter("as").is_some() {
        return None;
    }
    match parameter("as") {
        None => Some(Shape::Objects),
        Some(_) if parameter("g") != Some("meta.k8s.io") || parameter("v") != Some("v1") => None,
        Some("Table") => Some(Shape::Table),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Shape::Metadata),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shape_that_is_served_wins() {
        let cases = [
            ("application/json", Some(Shape::Objects)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Shape::Objects),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Some(Shape::Table),
            ),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(Shape::Objects),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some(Shape::Metadata),
            ),
            ("application/json; charset=utf-8", Some(Shape::Objects)),
            ("*/*", Some(Shape::Objects)),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                None,
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
                Some(Shape::Objects),
            ),
            ("text/html", None),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(shape(&headers), expected, "{accept}");
        }
        assert_eq!(shape(&HeaderMap::new()), Some(Shape::Objects));
    }
}
