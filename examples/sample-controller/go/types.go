package main

import "operetta.dev/sdk-go"

// Foo is the kind that crd.yaml defines.
type Foo struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                FooSpec    `json:"spec"`
	Status              *FooStatus `json:"status,omitempty"`
}

// GroupVersionKind returns the kind of Foos.
func (*Foo) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("samplecontroller.k8s.io/v1alpha1", "Foo")
}

// FooSpec is the desired Deployment.
type FooSpec struct {
	// DeploymentName is the Deployment's name.
	DeploymentName string `json:"deploymentName"`
	// Replicas is the number of replicas, 1 to 10. If nil, the plugin leaves it alone.
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is the observed Deployment.
type FooStatus struct {
	// AvailableReplicas is the Deployment's number of available replicas.
	AvailableReplicas int32 `json:"availableReplicas"`
}

// Deployment has the fields of an apps/v1 Deployment that the plugin uses. An update keeps the other fields.
type Deployment struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                struct {
		Replicas *int32 `json:"replicas,omitempty"`
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels,omitempty"`
		} `json:"selector"`
		Template struct {
			Metadata operetta.ObjectMeta `json:"metadata"`
			Spec     struct {
				Containers []Container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	} `json:"status,omitzero"`
}

// Container is a container of a Pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// GroupVersionKind returns the kind of Deployments.
func (*Deployment) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("apps/v1", "Deployment")
}
