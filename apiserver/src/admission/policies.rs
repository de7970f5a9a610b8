//! Validating admission policies: those that are bound, and their decision about a request.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    cel::{ResourceCheck, Val},
    matching,
    params::{self, Kinds, ParamResource},
    policy::{Failure, Inputs, Policy, Verdict},
    request::{AdmissionRequest, Endpoint},
};
use crate::{
    apimachinery::{
        group_resource::GroupResource,
        status::{Cause, Status},
    },
    authz::{
        objects::{Objects, text, texts},
        rbac::Rbac,
    },
};

/// The API group of policies and bindings.
pub const GROUP: &str = "admissionregistration.k8s.io";

const MAX_ANNOTATION: usize = 10 * 1024;

/// Kinds that no policy can stop anybody from changing.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// The policies of a cluster, compiled. Make them anew when a policy or binding changes.
#[derive(Debug, Default)]
pub struct Policies {
    bound: Vec<(Policy, Vec<Arc<Value>>)>,
}

/// The parts of the cluster that policies use.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    /// The objects, for parameters and namespaces.
    pub objects: &'a dyn Objects,
    /// Decides what expressions ask the `authorizer`.
    pub authorizer: &'a Rbac<'a>,
    /// Finds the kinds of parameters.
    pub kinds: &'a dyn Kinds,
}

/// The decision of all policies about a request.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The error that answers the request, if it is denied.
    pub denial: Option<Status>,
    /// The texts of `Warning` headers.
    pub warnings: Vec<String>,
    /// The annotations of the audit log.
    pub annotations: BTreeMap<String, String>,
}

struct Denied<'p> {
    policy: &'p Policy,
    binding: Option<&'p str>,
    message: String,
    reason: String,
}

impl Policies {
    /// Compiles the policies of a store that are bound, in the order of their names.
    pub fn load(objects: &dyn Objects) -> Self {
        let bindings = objects.list(GROUP, "validatingadmissionpolicybindings", "");
        let policies = objects.list(GROUP, "validatingadmissionpolicies", "");
        let bound = policies.iter().filter_map(|policy| {
            let name = text(policy, &["metadata", "name"]);
            let of_policy = bindings
                .iter()
                .filter(|binding| text(binding, &["spec", "policyName"]) == name);
            let of_policy: Vec<Arc<Value>> = of_policy.cloned().collect();
            (!of_policy.is_empty()).then(|| (Policy::compile(policy), of_policy))
        });

        Self {
            bound: bound.collect(),
        }
    }

    /// Decides about a request. The caller sends the warnings even if the request is denied.
    ///
    /// # Errors
    /// Fails if the request's namespace does not exist, which NamespaceLifecycle finds first.
    pub fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        cluster: Cluster<'_>,
    ) -> Result<Outcome, Status> {
        let mut outcome = Outcome::default();
        let Endpoint { group, kind, .. } = request.endpoint;
        let is_review = matches!(
            group.as_str(),
            "authentication.k8s.io" | "authorization.k8s.io"
        );

        if group == GROUP && EXEMPT.contains(&kind.as_str())
            || is_review && kind.ends_with("Review")
        {
            return Ok(outcome);
        }

        let mut denied: Vec<Denied<'_>> = Vec::new();
        let values = OnceCell::new();
        for (policy, bindings) in &self.bound {
            let dispatch = Dispatch {
                policy,
                request,
                cluster,
                values: &values,
            };
            dispatch.policy(bindings, &mut denied, &mut outcome)?;
        }

        outcome.denial = denied
            .into_iter()
            .next()
            .map(|first| denial(request, &first));

        Ok(outcome)
    }
}

fn denial(request: &AdmissionRequest<'_>, denied: &Denied<'_>) -> Status {
    let by = match denied.binding {
        Some(binding) => format!("'{}' with binding '{binding}'", denied.policy.name),
        None => format!("'{}'", denied.policy.name),
    };
    let message = format!(
        "ValidatingAdmissionPolicy {by} denied request: {}",
        denied.message
    );
    let reason = if denied.reason.is_empty() {
        "Invalid"
    } else {
        &denied.reason
    };
    let code = match reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };

    let mut status = request.forbidden(&message);
    status.code = code;
    status.reason = reason.to_owned().into();
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            message,
            ..Cause::default()
        });
    }
    status
}

/// The evaluation of one policy for one request.
struct Dispatch<'p, 'r> {
    policy: &'p Policy,
    request: &'r AdmissionRequest<'r>,
    cluster: Cluster<'r>,
    /// The values of the request's own endpoint, which most policies match.
    values: &'r OnceCell<Values>,
}

type Values = BTreeMap<&'static str, Val>;

/// Returns the values of a request that expressions can use, seen as one for an endpoint.
fn values(request: &AdmissionRequest<'_>, matched: &Endpoint) -> Values {
    let object =
        |object: Option<&Value>| object.map_or(Val::Null, |object| versioned(object, matched));
    BTreeMap::from([
        ("object", object(request.object)),
        ("oldObject", object(request.old)),
        ("request", Val::from_json(&request.variable(matched))),
    ])
}

impl<'p> Dispatch<'p, '_> {
    fn policy(
        &self,
        bindings: &'p [Arc<Value>],
        denied: &mut Vec<Denied<'p>>,
        outcome: &mut Outcome,
    ) -> Result<(), Status> {
        let spec = &self.policy.object["spec"];
        let matched = match matching::matches(
            &spec["matchConstraints"],
            self.request,
            self.cluster.objects,
        ) {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.misconfigured(None, &error.to_string(), denied);
                return Ok(());
            }
        };

        let param_resource = match self.param_resource(&spec["paramKind"]) {
            Ok(resource) => resource,
            Err(error) => {
                self.misconfigured(None, &error, denied);
                return Ok(());
            }
        };

        let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in bindings {
            for verdict in self.binding(binding, matched, param_resource.as_ref(), denied)? {
                self.apply(binding, verdict, denied, outcome, &mut annotations);
            }
        }

        for (key, values) in annotations {
            outcome
                .annotations
                .insert(format!("{}/{key}", self.policy.name), values.join(", "));
        }

        Ok(())
    }

    fn param_resource(&self, kind: &Value) -> Result<Option<ParamResource>, String> {
        if kind.is_null() {
            return Ok(None);
        }

        let (api_version, kind) = (text(kind, &["apiVersion"]), text(kind, &["kind"]));
        match self.cluster.kinds.resource_of(api_version, kind) {
            Some(resource) => Ok(Some(resource)),
            None => {
                let shown = if api_version.contains('/') {
                    api_version.to_owned()
                } else {
                    format!("/{api_version}")
                };

                Err(format!(
                    "failed to find resource referenced by paramKind: '{shown}, Kind={kind}'"
                ))
            }
        }
    }

    /// Records that the policy or a binding cannot be evaluated.
    fn misconfigured(&self, binding: Option<&'p str>, error: &str, denied: &mut Vec<Denied<'p>>) {
        if self.policy.ignores_failures {
            return;
        }

        let what = if binding.is_some() {
            "binding"
        } else {
            "policy"
        };
        let message = format!("failed to configure {what}: {error}");

        denied.push(Denied {
            policy: self.policy,
            binding,
            message,
            reason: String::new(),
        });
    }

    /// Evaluates the policy for each parameter of a binding.
    fn binding(
        &self,
        binding: &'p Value,
        matched: &Endpoint,
        param_resource: Option<&ParamResource>,
        denied: &mut Vec<Denied<'p>>,
    ) -> Result<Vec<Verdict>, Status> {
        let name = text(binding, &["metadata", "name"]);
        let spec = &binding["spec"];
        let resources = &spec["matchResources"];
        if !resources.is_null() {
            match matching::matches(resources, self.request, self.cluster.objects) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(Vec::new()),
                Err(error) => {
                    self.misconfigured(Some(name), &error.to_string(), denied);
                    return Ok(Vec::new());
                }
            }
        }

        let kind = &self.policy.object["spec"]["paramKind"];
        let namespace = self.request.namespace;
        match params::collect(
            kind,
            &spec["paramRef"],
            param_resource,
            namespace,
            self.cluster.objects,
        ) {
            Ok(params) => params
                .iter()
                .map(|param| self.evaluate(matched, param.as_ref()))
                .collect(),
            Err(error) => {
                self.misconfigured(Some(name), &error, denied);
                Ok(Vec::new())
            }
        }
    }

    fn evaluate(&self, matched: &Endpoint, param: Option<&Value>) -> Result<Verdict, Status> {
        let request = self.request;
        let mut names = match matched == request.endpoint {
            true => self.values.get_or_init(|| values(request, matched)).clone(),
            false => values(request, matched),
        };
        names.insert("params", param.map_or(Val::Null, Val::from_json));

        let check = ResourceCheck {
            account: None,
            group: request.endpoint.group.clone(),
            resource: request.endpoint.resource.clone(),
            subresource: request.subresource.to_owned(),
            namespace: request.namespace.to_owned(),
            name: request.name.to_owned(),
        };

        let inputs = Inputs {
            names,
            namespace: self.namespace_object()?,
            authorizer: self.cluster.authorizer,
            user: request.user,
            check,
        };

        Ok(self.policy.evaluate(&inputs))
    }

    /// Returns the Namespace of the request, without the fields that expressions do not see.
    fn namespace_object(&self) -> Result<Val, Status> {
        let name = self.request.namespace;
        let is_namespace =
            self.request.endpoint.group.is_empty() && self.request.endpoint.kind == "Namespace";
        if name.is_empty() || is_namespace {
            return Ok(Val::Null);
        }

        let namespace = self.cluster.objects.get("", "namespaces", "", name);
        let namespace = namespace
            .ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
        let mut shown = json!({"metadata": namespace["metadata"], "spec": namespace["spec"], "status": namespace["status"]});
        if let Some(metadata) = shown["metadata"].as_object_mut() {
            metadata.remove("managedFields");
            metadata.remove("ownerReferences");
        }

        Ok(Val::from_json(&shown))
    }

    fn apply(
        &self,
        binding: &'p Value,
        verdict: Verdict,
        denied: &mut Vec<Denied<'p>>,
        outcome: &mut Outcome,
        annotations: &mut BTreeMap<String, Vec<String>>,
    ) {
        let name = text(binding, &["metadata", "name"]);
        let actions: BTreeSet<&str> = texts(&binding["spec"]["validationActions"]).collect();
        for failure in verdict.failures {
            if actions.contains("Warn") {
                outcome.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{name}': {}",
                    self.policy.name, failure.message
                ));
            }

            if actions.contains("Audit") {
                let key = "validation.policy.admission.k8s.io/validation_failure".to_owned();
                let value = self.audit_failure(binding, &failure);
                outcome.annotations.entry(key).or_insert(value);
            }

            if actions.contains("Deny") {
                let Failure {
                    message, reason, ..
                } = failure;
                denied.push(Denied {
                    policy: self.policy,
                    binding: Some(name),
                    message,
                    reason,
                });
            }
        }

        for (key, mut value) in verdict.annotations {
            value.truncate(value.floor_char_boundary(MAX_ANNOTATION));
            let values = annotations.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }

        for message in verdict.annotation_errors {
            denied.push(Denied {
                policy: self.policy,
                binding: Some(name),
                message,
                reason: String::new(),
            });
        }
    }

    fn audit_failure(&self, binding: &Value, failure: &Failure) -> String {
        let spec = &binding["spec"];
        format!(
            "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{},\"validationActions\":{}}}]",
            json!(failure.message),
            json!(self.policy.name),
            binding["metadata"]["name"],
            failure.index,
            spec["validationActions"]
        )
    }
}

/// Returns an object in the version of the endpoint by which the request matched.
fn versioned(object: &Value, matched: &Endpoint) -> Val {
    let version = match matched.group.as_str() {
        "" => matched.version.clone(),
        group => format!("{group}/{}", matched.version),
    };
    if object["kind"] != matched.kind.as_str() || object["apiVersion"] == version.as_str() {
        return Val::from_json(object);
    }

    let mut object = object.clone();
    object["apiVersion"] = json!(version);
    Val::from_json(&object)
}
