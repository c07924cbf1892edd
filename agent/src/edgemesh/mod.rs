//! Services by name and address on the edge node, also while the cloud is away.
//!
//! What comes in: Services, EndpointSlices and this node's labels. What goes out: DNS answers, and connections from a Service's
//! addresses to its endpoints. Source: the Kubernetes pages "Virtual IPs and Service Proxies" and "DNS for Services and Pods".

pub mod snapshot;
