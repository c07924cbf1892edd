//! KubeEdge's edge node agent: EdgeCore's job in a tenth of the memory
