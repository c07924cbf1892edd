//! KubeEdge's custom resources as Rust types, and the YAML generated from them
