#!/bin/sh -eu
# A kind cluster with three edge nodes; run from the root of the repository, after `make image`.
kind create cluster --config examples/kind/kind.yaml --wait 120s
kind load image-archive "${IMAGE:-target/image/cloudsim.tar}"
kubectl create namespace kubeedge
kubectl label namespace kubeedge pod-security.kubernetes.io/enforce=restricted
helm install cloudsim charts/cloudsim --namespace kubeedge --wait --timeout 5m --set hollow.nodes=3 \
  --set service.type=NodePort,service.nodePorts.hub=30000,service.nodePorts.https=30002,service.nodePorts.tunnel=30004
kubectl wait --for=condition=Ready node/edge-1 node/edge-2 node/edge-3 --timeout=180s
