//! The OpenAPI v3 document of a version, as the real server publishes it at
//! `/openapi/v3/apis/GROUP/VERSION`.
//!
//! The parameters and the schemas of metadata, which are the same for all resources, are in
//! `openapi_common.json`.

use serde_json::{Map, Value, json};

use super::{
    model::{Definition, Version},
    published::{
        COMMON, add_embedded_properties, add_int_or_string, add_object_properties, for_each,
    },
    structural,
};

const META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.";
const SCALE: &str = "#/components/schemas/io.k8s.api.autoscaling.v1.Scale";
const LIST_PARAMETERS: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const WRITE_PARAMETERS: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const PATCH_PARAMETERS: [&str; 4] = ["dryRun", "fieldManager@patch", "fieldValidation", "force"];
const DELETE_PARAMETERS: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];

/// Returns the document of a version; `schema` is the version's schema as it was given.
pub fn document(definition: &Definition, version: &Version, schema: &Value) -> Value {
    let builder = Builder::new(definition, version);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": builder.paths(),
        "components": {"schemas": builder.schemas(schema)},
    })
}

/// Builds the parts of a document for a version of a definition.
pub(super) struct Builder<'a> {
    definition: &'a Definition,
    version: &'a Version,
    namespaced: bool,
}

/// An operation of the document.
struct Operation<'a> {
    /// The verb, as in `replace`.
    verb: &'a str,
    /// The action, as in `put`.
    action: &'a str,
    /// The subresource, or empty.
    subresource: &'a str,
    parameters: &'a [&'a str],
    /// The reference to the schema of the answer.
    answer: String,
    body: Option<String>,
    codes: &'a [&'a str],
}

impl<'a> Builder<'a> {
    pub(super) fn new(definition: &'a Definition, version: &'a Version) -> Self {
        Self {
            definition,
            version,
            namespaced: definition.spec.scope == "Namespaced",
        }
    }
}

impl Builder<'_> {
    fn kind(&self) -> &str {
        &self.definition.spec.names.kind
    }

    fn model(&self, kind: &str) -> String {
        let group: Vec<_> = self.definition.spec.group.split('.').rev().collect();
        format!("{}.{}.{kind}", group.join("."), self.version.name)
    }

    fn reference(&self, kind: &str) -> String {
        format!("#/components/schemas/{}", self.model(kind))
    }

    fn paths(&self) -> Value {
        let spec = &self.definition.spec;
        let version = &self.version.name;
        let root = format!("/apis/{}/{version}", spec.group);
        let plural = &spec.names.plural;
        let mut paths = Map::new();
        let mut collection = format!("{root}/{plural}");

        if self.namespaced {
            paths.insert(collection, self.all_namespaces());
            collection = format!("{root}/namespaces/{{namespace}}/{plural}");
        }

        let item = format!("{collection}/{{name}}");
        paths.insert(collection, self.collection());

        let object = self.reference(self.kind());
        let mut main = self.item("", &object);
        main.insert("delete".to_owned(), self.delete());
        paths.insert(item.clone(), Value::Object(main));

        if self.version.has_status() {
            paths.insert(
                format!("{item}/status"),
                Value::Object(self.item("status", &object)),
            );
        }

        if self.version.scale().is_some() {
            paths.insert(
                format!("{item}/scale"),
                Value::Object(self.item("scale", SCALE)),
            );
        }

        Value::Object(paths)
    }

    fn all_namespaces(&self) -> Value {
        let list = self.list();
        let mut names = LIST_PARAMETERS.to_vec();
        names.push("pretty");
        names.sort_unstable();

        let mut operation = self.operation(&Operation {
            parameters: &[],
            ..list
        });
        operation["operationId"] = json!(format!(
            "list{}{}ForAllNamespaces",
            self.prefix(),
            self.kind()
        ));

        json!({"get": operation, "parameters": parameters(&names)})
    }

    fn list(&self) -> Operation<'static> {
        Operation {
            verb: "list",
            action: "list",
            subresource: "",
            parameters: &LIST_PARAMETERS,
            answer: self.reference(&self.definition.spec.names.list_kind),
            body: None,
            codes: &["200"],
        }
    }

    fn collection(&self) -> Value {
        let object = self.reference(self.kind());
        let post = Operation {
            verb: "create",
            action: "post",
            subresource: "",
            parameters: &WRITE_PARAMETERS,
            answer: object.clone(),
            body: Some(object),
            codes: &["200", "201", "202"],
        };

        let delete = Operation {
            verb: "deletecollection",
            action: "deletecollection",
            subresource: "",
            parameters: &LIST_PARAMETERS,
            answer: format!("{META}Status"),
            body: None,
            codes: &["200"],
        };

        let names: &[&str] = if self.namespaced {
            &["namespace", "pretty"]
        } else {
            &["pretty"]
        };

        json!({"get": self.operation(&self.list()), "post": self.operation(&post),
            "delete": self.operation(&delete), "parameters": parameters(names)})
    }

    fn delete(&self) -> Value {
        let mut operation = self.operation(&Operation {
            verb: "delete",
            action: "delete",
            subresource: "",
            parameters: &DELETE_PARAMETERS,
            answer: format!("{META}Status"),
            body: Some(format!("{META}DeleteOptions")),
            codes: &["200", "202"],
        });

        if let Some(Value::Object(body)) = operation.get_mut("requestBody") {
            body.remove("required");
        }

        operation
    }

    /// Returns the operations on an object or a subresource of it.
    fn item(&self, subresource: &str, object: &str) -> Map<String, Value> {
        let operation = |verb, action, parameters, body: Option<String>, codes| {
            self.operation(&Operation {
                verb,
                action,
                subresource,
                parameters,
                answer: object.to_owned(),
                body,
                codes,
            })
        };

        let names: &[&str] = if self.namespaced {
            &["name", "namespace", "pretty"]
        } else {
            &["name", "pretty"]
        };
        let mut list = parameters(names);
        if let Some(description) = list.pointer_mut("/0/description") {
            *description = json!(format!("name of the {}", self.kind()));
        }

        let read: &[&str] = &["resourceVersion"];
        let patch = Some(format!("{META}Patch"));
        Map::from_iter([
            (
                "get".to_owned(),
                operation("read", "get", read, None, &["200"][..]),
            ),
            (
                "put".to_owned(),
                operation(
                    "replace",
                    "put",
                    &WRITE_PARAMETERS,
                    Some(object.to_owned()),
                    &["200", "201"],
                ),
            ),
            (
                "patch".to_owned(),
                operation("patch", "patch", &PATCH_PARAMETERS, patch, &["200"]),
            ),
            ("parameters".to_owned(), list),
        ])
    }

    /// Returns the group and version as operation IDs have them.
    fn prefix(&self) -> String {
        let group = &self.definition.spec.group;
        let group = group.strip_suffix(".k8s.io").unwrap_or(group);
        format!(
            "{}{}",
            identifier(group, true),
            identifier(&self.version.name, true)
        )
    }

    fn operation(&self, operation: &Operation<'_>) -> Value {
        let group = &self.definition.spec.group;
        let tag = identifier(group.strip_suffix(".k8s.io").unwrap_or(group), false);
        let (verb, collection) = match operation.verb {
            "deletecollection" => ("delete", "Collection"),
            verb => (verb, ""),
        };
        let scope = if self.namespaced { "Namespaced" } else { "" };
        let subresource = identifier(operation.subresource, true);
        let id = format!(
            "{verb}{}{collection}{scope}{}{subresource}",
            self.prefix(),
            self.kind()
        );

        let mut out = json!({
            "tags": [format!("{tag}_{}", self.version.name)],
            "description": self.description(operation),
            "operationId": id,
            "responses": responses(operation),
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind":
                {"group": group, "version": self.version.name, "kind": self.kind()},
        });

        if !operation.parameters.is_empty() {
            out["parameters"] = parameters(operation.parameters);
        }

        if let Some(body) = &operation.body {
            let types: &[&str] = if operation.action == "patch" {
                &[
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ]
            } else {
                &["application/json", "application/yaml"]
            };

            out["requestBody"] = json!({"content": content(types, body), "required": true});
        }

        out
    }

    fn description(&self, operation: &Operation<'_>) -> String {
        let kind = self.kind();
        let of = if operation.subresource.is_empty() {
            String::new()
        } else {
            format!(" {} of", operation.subresource)
        };

        match operation.verb {
            "list" => format!("list objects of kind {kind}"),
            "patch" => format!("partially update{of} the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            verb @ ("read" | "replace") => format!("{verb}{of} the specified {kind}"),
            verb => {
                let plural = kind.ends_with('s') && !kind.ends_with("ss");
                let vowel = kind.starts_with(|c: char| "aeiou".contains(c.to_ascii_lowercase()));
                let article = if plural {
                    " "
                } else if vowel {
                    " an "
                } else {
                    " a "
                };

                format!("{verb}{article}{kind}")
            }
        }
    }

    fn schemas(&self, schema: &Value) -> Value {
        let scaled = self.version.scale().is_some();
        let common = COMMON["schemas"].as_object().cloned().unwrap_or_default();
        let mut schemas: Map<String, Value> = common
            .into_iter()
            .filter(|(name, _)| scaled || !name.starts_with("io.k8s.api.autoscaling."))
            .collect();

        schemas.extend(self.kinds(self.object(schema)));
        Value::Object(schemas)
    }

    /// Returns the schemas of an object and of a list by their names, given the one of the object.
    pub(super) fn kinds(&self, mut object: Value) -> [(String, Value); 2] {
        let names = &self.definition.spec.names;
        let doc = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
        let mut list = json!({
            "type": "object",
            "description": format!("{} is a list of {}", names.list_kind, names.kind),
            "required": ["items"],
            "properties": COMMON["list"],
        });

        list["properties"]["items"] = json!({"type": "array", "items": {"$ref": self.reference(&names.kind)},
            "description": format!("List of {}. {doc}", names.plural)});

        for (schema, kind) in [(&mut object, &names.kind), (&mut list, &names.list_kind)] {
            let group = &self.definition.spec.group;
            let version = &self.version.name;
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": group, "version": version, "kind": kind}]);

            let fields = self.version.selectable_fields.iter();
            let paths: Vec<_> = fields
                .map(|f| json!({"fieldPath": f.json_path.trim_start_matches('.')}))
                .collect();
            if !paths.is_empty() {
                schema["x-kubernetes-selectable-fields"] = Value::Array(paths);
            }
        }

        [
            (self.model(&names.kind), object),
            (self.model(&names.list_kind), list),
        ]
    }

    fn object(&self, schema: &Value) -> Value {
        if !self.version.schema().is_some_and(structural::is_structural) {
            return json!({"type": "object"});
        }

        let mut schema = schema.clone();
        for_each(&mut schema, &mut |fields| {
            add_int_or_string(fields);
            add_embedded_properties(fields);
        });
        add_object_properties(&mut schema);

        schema
    }
}

fn responses(operation: &Operation<'_>) -> Value {
    let texts = [("200", "OK"), ("201", "Created"), ("202", "Accepted")];
    let mut responses = Map::new();
    for (code, text) in texts
        .iter()
        .filter(|(code, _)| operation.codes.contains(code))
    {
        let content = content(&["application/json", "application/yaml"], &operation.answer);
        responses.insert(
            (*code).to_owned(),
            json!({"description": text, "content": content}),
        );
    }

    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(responses)
}

fn content(types: &[&str], reference: &str) -> Value {
    let entries = types
        .iter()
        .map(|ty| ((*ty).to_owned(), json!({"schema": {"$ref": reference}})));
    Value::Object(entries.collect())
}

fn parameters(names: &[&str]) -> Value {
    Value::Array(
        names
            .iter()
            .map(|name| COMMON["parameters"][*name].clone())
            .collect(),
    )
}

/// Returns a text as part of an operation ID: letters and digits, with a capital letter after each
/// gap.
fn identifier(text: &str, mut capital: bool) -> String {
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        if c.is_alphabetic() || c == '_' || (at > 0 && c.is_numeric()) {
            if capital {
                out.extend(c.to_uppercase());
            } else {
                out.push(c);
            }
            capital = false;
        } else {
            capital = true;
        }
    }

    out
}
