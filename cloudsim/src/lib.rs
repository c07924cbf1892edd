//! KubeEdge's cloud in one process: hub, API, controllers and a simulated container runtime
