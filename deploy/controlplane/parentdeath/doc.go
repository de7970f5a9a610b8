// Package parentdeath ends the components when the supervisor ends, however it
// ends. It is apart from package supervisor so that a change of the supervisor
// does not build Kubernetes again.
package parentdeath

// Variable is the environment variable that carries the supervisor's pid.
const Variable = "OPERETTA_CONTROLPLANE_PID"
