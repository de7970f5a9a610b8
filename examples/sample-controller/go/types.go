package main

import "operetta.dev/sdk-go"

// Foo wants a Deployment.
type Foo struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                FooSpec    `json:"spec"`
	Status              *FooStatus `json:"status,omitempty"`
}

// GroupVersionKind is the kind of crd.yaml.
func (*Foo) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("samplecontroller.k8s.io/v1alpha1", "Foo")
}

// FooSpec is the Deployment that is wanted.
type FooSpec struct {
	// DeploymentName is the Deployment's name.
	DeploymentName string `json:"deploymentName"`
	// Replicas is how many it is to have, 1 to 10; not ours to say if nil.
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is the Deployment that there is.
type FooStatus struct {
	// AvailableReplicas are the Deployment's.
	AvailableReplicas int32 `json:"availableReplicas"`
}

// Deployment is apps/v1's, as far as this controller is concerned.
type Deployment struct {
	operetta.TypeMeta
	operetta.ObjectMeta `json:"metadata"`
	Spec                DeploymentSpec   `json:"spec"`
	Status              DeploymentStatus `json:"status,omitzero"`
}

// GroupVersionKind is apps/v1 Deployment.
func (*Deployment) GroupVersionKind() operetta.GroupVersionKind {
	return operetta.GVK("apps/v1", "Deployment")
}

// DeploymentSpec is what a Foo says of its Deployment.
type DeploymentSpec struct {
	Replicas *int32        `json:"replicas,omitempty"`
	Selector LabelSelector `json:"selector"`
	Template PodTemplate   `json:"template"`
}

// LabelSelector chooses Pods by labels.
type LabelSelector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// PodTemplate is what the Deployment's Pods are made of.
type PodTemplate struct {
	Metadata operetta.ObjectMeta `json:"metadata"`
	Spec     PodSpec             `json:"spec"`
}

// PodSpec is a Pod's.
type PodSpec struct {
	Containers []Container `json:"containers"`
}

// Container is one of a Pod's.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// DeploymentStatus is what the Deployment controller says.
type DeploymentStatus struct {
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
}
