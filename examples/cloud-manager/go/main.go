// cloud-manager as an Operetta plugin: a kubebuilder project with unchanged api/ and internal/. Only this file is
// specific to the plugin.
package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	cloudv1 "cloud-manager/api/v1"
	"cloud-manager/internal/controller"

	"operetta.dev/sdk-go/controllerruntime"
)

var options = controllerruntime.Options{
	AddToScheme:       []controllerruntime.AddToScheme{cloudv1.AddToScheme},
	OwnNamespace:      true,
	ControllerIndexes: []string{".metadata.controller"},
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
