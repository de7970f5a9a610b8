// The CRDs of known projects, for `make bench-store`: their modules carry them as YAML. Nothing here is compiled; go.sum
// says what each has to be. host/kube/benches/store/mixed.rs says where in them the CRDs are.
module operetta.dev/benches/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/external-secrets/external-secrets v1.3.2
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/cluster-api v1.14.2
	sigs.k8s.io/gateway-api v1.6.3
)
