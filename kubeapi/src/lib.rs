//! A small Kubernetes-style API (list, get, watch, create, update, patch, delete, subresources, discovery, OpenAPI) over an
//! object store, called in process through an ordinary `kube::Client` or served over TLS.

pub mod store;
