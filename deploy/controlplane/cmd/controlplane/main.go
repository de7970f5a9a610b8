// The supervisor alone, for people whose KUBEBUILDER_ASSETS already holds
// upstream's etcd and kube-apiserver: it imports nothing of Kubernetes and so
// builds in seconds.
package main

import (
	"os"

	"operetta.dev/deploy/controlplane/supervisor"
)

func main() { os.Exit(supervisor.Main(os.Args)) }
