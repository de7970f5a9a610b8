// The program controlplane: the supervisor, without the components. It imports
// nothing of Kubernetes, so it builds in seconds, also for people whose
// KUBEBUILDER_ASSETS already holds upstream's etcd and kube-apiserver.
package main

import (
	"os"

	"operetta.dev/deploy/controlplane/supervisor"
)

func main() { os.Exit(supervisor.Main(os.Args)) }
