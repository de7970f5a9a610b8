// cloud-manager as an Operetta plugin: a kubebuilder project whose api/ and internal/ are as kubebuilder leaves them.
// Only this file is a plugin's.
package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	cloudv1 "cloud-manager/api/v1"
	"cloud-manager/internal/controller"

	"operetta.dev/sdk-go/controllerruntime"
)

var options = controllerruntime.Options{
	AddToScheme:  []controllerruntime.AddToScheme{cloudv1.AddToScheme},
	OwnNamespace: true,
}

func init() { controllerruntime.Run(setup, options) }

func main() {}

func setup(mgr ctrl.Manager) error {
	return (&controller.CloudManagerReconciler{
		Client:   mgr.GetClient(),
		Scheme:   mgr.GetScheme(),
		Recorder: mgr.GetEventRecorderFor("cloudmanager-controller"),
	}).SetupWithManager(mgr)
}
