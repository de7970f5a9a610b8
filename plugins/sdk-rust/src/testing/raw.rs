//! Raw requests to a test cluster. A request for objects becomes the matching call of the contract, including planned
//! errors and recorded writes. Every other request is rejected.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::State;
use super::errors::unsupported;
use super::resources::{Path, plural_of};
use crate::backend::{Backend, CreateRequest, Part, PatchRequest, UpdateRequest};
use crate::options::{DeleteOptions, ListOptions, Page, PatchType, Propagation, Read, WriteOptions};
use crate::{ApiError, ErrorKind, GroupVersionKind, ObjectKey, RawRequest, RawResponse, Status};

impl State {
    pub(super) fn answer(&self, request: &RawRequest) -> RawResponse {
        match self.serve(request) {
            Ok((status, body)) => RawResponse {
                status,
                content_type: "application/json".to_owned(),
                retry_after_seconds: None,
                body: body.to_string(),
            },
            Err(error) => RawResponse::of_error(&error),
        }
    }

    fn serve(&self, request: &RawRequest) -> Result<(u16, Value), ApiError> {
        let query = Query::parse(&request.query)?;
        let path = Path::parse(&request.path).ok_or_else(|| {
            let message = format!("{} is not a path of objects; the test kit supports no other", request.path);
            ApiError::new(ErrorKind::NotFound, message)
        })?;
        let kind = self.kind_at(&path)?;
        let key = ObjectKey { namespace: path.namespace.map(str::to_owned), name: path.name.unwrap_or("").to_owned() };
        let form = Form::parse(request.accept.as_deref())?;
        let options = query.write_options();
        match (request.method.as_str(), path.name, path.subresource) {
            ("GET", None, None) => {
                if query.flag("watch") || query.flag("follow") {
                    return Err(no_stream());
                }
                Ok((200, form.list(&kind, self.list(&kind, &query.list_options(&key, request.cached))?)?))
            }
            ("GET", Some(_), None | Some("status")) => {
                let read = if request.cached { Read::Cached } else { Read::Live };
                Ok((200, form.object(&self.get(&kind, &key, read)?)?))
            }
            ("POST", None, None) => {
                let namespace = key.namespace.as_deref();
                let create = CreateRequest { namespace, object: body(request)?, options: &options };
                Ok((201, form.object(&self.create(&kind, &create)?)?))
            }
            ("PUT", Some(_), subresource @ (None | Some("status"))) => {
                let part = if subresource.is_none() { Part::Main } else { Part::Status };
                let update = UpdateRequest { object: body(request)?, part, options: &options };
                Ok((200, form.object(&self.update(&kind, &key, &update)?)?))
            }
            ("PATCH", Some(_), subresource) => {
                let patch = PatchRequest {
                    subresource,
                    kind: patch_type(request)?,
                    body: body(request)?,
                    force: query.flag("force"),
                    options: &options,
                };
                let existed = super::locked(&self.store).get(&kind, &key).is_ok();
                let patched = self.patch(&kind, &key, &patch)?;
                Ok((if existed { 200 } else { 201 }, form.object(&patched)?))
            }
            ("DELETE", Some(_), None) => self.delete_one(request, &query, &kind, &key),
            ("DELETE", None, None) => Err(unsupported("deleting a collection")),
            ("GET" | "POST" | "PUT" | "DELETE", _, Some(other)) => {
                Err(unsupported(&format!("{} of the subresource {other}", request.method)))
            }
            (method, ..) => {
                let message = format!("{method} is not allowed on {}", request.path);
                Err(refused(405, "MethodNotAllowed", message))
            }
        }
    }

    fn delete_one(
        &self,
        request: &RawRequest,
        query: &Query,
        kind: &GroupVersionKind,
        key: &ObjectKey,
    ) -> Result<(u16, Value), ApiError> {
        let options = query.delete_options(request.body.as_deref())?;
        let uid = super::locked(&self.store).get(kind, key).map(|object| object["metadata"]["uid"].clone());
        Backend::delete(self, kind, key, &options)?;
        // The API server answers with an object that its finalizers keep.
        if let Ok(left) = super::locked(&self.store).get(kind, key) {
            return Ok((200, left.clone()));
        }
        let details = json!({"name": key.name, "kind": plural_of(&kind.kind), "uid": uid.unwrap_or_default()});
        let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"});
        let mut status: Map<String, Value> = status.as_object().cloned().unwrap_or_default();
        status.insert("details".to_owned(), details);
        Ok((200, Value::Object(status)))
    }
}

fn refused(code: u16, reason: &str, message: impl Into<String>) -> ApiError {
    ApiError::from_status(Status { code, reason: reason.to_owned(), message: message.into(), ..Status::default() })
}

fn no_stream() -> ApiError {
    refused(
        405,
        "MethodNotAllowed",
        "a plugin cannot watch: declare its watches in the manifest, and read from the cache",
    )
}

fn body(request: &RawRequest) -> Result<&str, ApiError> {
    let missing = || ApiError::new(ErrorKind::BadRequest, format!("{} needs a body", request.method));
    request.body.as_deref().ok_or_else(missing)
}

fn patch_type(request: &RawRequest) -> Result<PatchType, ApiError> {
    match request.content_type.as_deref() {
        Some("application/merge-patch+json") => Ok(PatchType::Merge),
        Some("application/json-patch+json") => Ok(PatchType::Json),
        Some("application/apply-patch+yaml") => Ok(PatchType::Apply),
        Some("application/strategic-merge-patch+json") => Err(unsupported("a strategic merge patch")),
        other => {
            let message = format!("{} is not the type of a patch", other.unwrap_or("nothing"));
            Err(refused(415, "UnsupportedMediaType", message))
        }
    }
}

/// The form of the objects in a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Metadata,
}

impl Form {
    fn parse(accept: Option<&str>) -> Result<Self, ApiError> {
        match accept {
            None | Some("application/json" | "*/*") => Ok(Self::Whole),
            Some(accept) if accept.contains("as=PartialObjectMetadata") => Ok(Self::Metadata),
            Some(other) => Err(unsupported(&format!("an answer as {other}"))),
        }
    }

    fn object(self, text: &str) -> Result<Value, ApiError> {
        let object: Value = serde_json::from_str(text).map_err(|error| ApiError::malformed(error.to_string()))?;
        Ok(match self {
            Self::Whole => object,
            Self::Metadata => json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"],
            }),
        })
    }

    fn list(self, kind: &GroupVersionKind, page: Page<String>) -> Result<Value, ApiError> {
        let items = page.items.iter().map(|item| self.object(item)).collect::<Result<Vec<_>, _>>()?;
        let (api_version, kind) = match self {
            Self::Whole => (&*kind.api_version, format!("{}List", kind.kind)),
            Self::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadataList".to_owned()),
        };
        let mut metadata = json!({"resourceVersion": page.resource_version});
        if let Some(token) = page.continue_token {
            metadata["continue"] = token.into();
        }
        Ok(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items}))
    }
}

/// The decoded parameters of a request.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(query: &str) -> Result<Self, ApiError> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        });
        let wrong = || ApiError::new(ErrorKind::BadRequest, format!("{query:?} is not a query"));
        Ok(Self(pairs.collect::<Option<_>>().ok_or_else(wrong)?))
    }

    fn text(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(found, value)| found == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    }

    fn flag(&self, name: &str) -> bool {
        self.0.iter().any(|(found, value)| found == name && matches!(value.as_str(), "true" | "1" | ""))
    }

    fn list_options(&self, key: &ObjectKey, cached: bool) -> ListOptions {
        let options = match &key.namespace {
            Some(namespace) => ListOptions::in_namespace(namespace.clone()),
            None => ListOptions::all_namespaces(),
        };
        ListOptions {
            labels: self.text("labelSelector"),
            fields: self.text("fieldSelector"),
            page_size: self.text("limit").and_then(|limit| limit.parse().ok()),
            continue_token: self.text("continue"),
            read: if cached { Read::Cached } else { Read::Live },
            ..options
        }
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions {
            dry_run: self.text("dryRun").is_some(),
            field_manager: self.text("fieldManager"),
            strict: self.text("fieldValidation").as_deref() == Some("Strict"),
        }
    }

    /// Reads `metav1.DeleteOptions` from the body, and in part from the query.
    ///
    /// # Errors
    /// Returns bad-request.
    fn delete_options(&self, body: Option<&str>) -> Result<DeleteOptions, ApiError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Given {
            dry_run: Vec<String>,
            grace_period_seconds: Option<u32>,
            preconditions: Preconditions,
            propagation_policy: Option<String>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Preconditions {
            uid: Option<String>,
            resource_version: Option<String>,
        }
        let bad = |message: String| ApiError::new(ErrorKind::BadRequest, message);
        let given: Given = match body.filter(|body| !body.is_empty()) {
            Some(body) => serde_json::from_str(body).map_err(|error| bad(format!("DeleteOptions: {error}")))?,
            None => Given::default(),
        };
        let policy = given.propagation_policy.or_else(|| self.text("propagationPolicy"));
        let propagation = match policy.as_deref() {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => return Err(bad(format!("{other:?} is not a propagation policy"))),
        };
        let grace = self.text("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok());
        Ok(DeleteOptions {
            uid: given.preconditions.uid,
            resource_version: given.preconditions.resource_version,
            grace_period_seconds: given.grace_period_seconds.or(grace),
            propagation,
            dry_run: !given.dry_run.is_empty() || self.text("dryRun").is_some(),
        })
    }
}

/// Decodes percent-encoding, with `+` for a blank as in forms; returns `None` if an escape is broken or the result is
/// not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::testing::Cluster;
    use crate::{Object, ObjectMeta};

    const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

    fn map(name: &str) -> ConfigMap {
        let labels = Some([("app".to_owned(), name.to_owned())].into());
        let metadata =
            ObjectMeta { name: Some(name.into()), namespace: Some("ns".into()), labels, ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn cluster() -> Cluster {
        Cluster::new().with(map("a")).with(map("b"))
    }

    fn reason(answer: &RawResponse) -> (u16, String) {
        let error = answer.json::<Value>().expect_err("refused");
        (answer.status, error.status().reason.clone())
    }

    #[test]
    fn reads_writes_and_deletes_objects_at_paths() {
        let cluster = cluster();
        let ctx = cluster.context();
        let made = ctx.raw(&RawRequest::post(MAPS).json(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"},
        })));
        assert_eq!(made.status, 201);
        let at = format!("{MAPS}/c");
        let merge = RawRequest::patch(&at, "application/merge-patch+json").json(&json!({"data": {"b": "2"}}));
        assert_eq!(ctx.raw(&merge).json::<ConfigMap>().expect("merged").data.expect("data").len(), 2);
        let mut read: ConfigMap = ctx.raw(&RawRequest::get(&at).cached()).json().expect("read");
        read.data = None;
        let put = ctx.raw(&RawRequest::put(&at).text(serde_json::to_string(&read).expect("JSON")));
        assert_eq!(put.json::<ConfigMap>().expect("replaced").data, None);
        assert_eq!(reason(&ctx.raw(&RawRequest::put(&at).json(&read))), (409, "Conflict".into()));
        let deleted: Value = ctx.raw(&RawRequest::delete(&at)).json().expect("deleted");
        assert_eq!((&deleted["status"], &deleted["details"]["name"]), (&json!("Success"), &json!("c")));
        assert_eq!(reason(&ctx.raw(&RawRequest::get(&at))), (404, "NotFound".into()));
        let writes: Vec<_> = cluster.writes().iter().map(ToString::to_string).collect();
        let all = ["Create ConfigMap ns/c", "Patch ConfigMap ns/c", "Update ConfigMap ns/c", "Delete ConfigMap ns/c"];
        assert_eq!(writes, all);
    }

    #[test]
    fn list_supports_selectors_and_pages() {
        let ctx = cluster().context();
        let names = |query: &str| {
            let list: Value = ctx.raw(&RawRequest::get(MAPS).query(query)).json().expect("a list");
            assert_eq!(list["kind"], "ConfigMapList");
            let items = list["items"].as_array().expect("items").clone();
            items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or("").to_owned()).collect::<String>()
        };
        assert_eq!(names(""), "ab");
        assert_eq!(names("labelSelector=app%20in+(a)"), "a");
        assert_eq!(names("fieldSelector=metadata.name%3Db"), "b");
        assert_eq!(names("limit=1&continue=1"), "b");
        let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let list: Value = ctx.raw(&RawRequest::get(MAPS).accept(partial)).json().expect("a list");
        assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    }

    #[test]
    fn refuses_streams_and_unknown_paths_as_the_host() {
        let ctx = cluster().context();
        for (request, expected) in [
            (RawRequest::get(MAPS).query("watch=true"), (405, "MethodNotAllowed")),
            (RawRequest::new("TRACE", MAPS), (405, "MethodNotAllowed")),
            (RawRequest::get("/healthz"), (404, "NotFound")),
            (RawRequest::get("/apis/e.dev/v1/widgets"), (404, "NotFound")),
            (RawRequest::get(MAPS).query("limit=%zz"), (400, "BadRequest")),
            (RawRequest::post(MAPS), (400, "BadRequest")),
            (RawRequest::patch(format!("{MAPS}/a"), "text/plain").text("x"), (415, "UnsupportedMediaType")),
        ] {
            let (status, reason) = reason(&ctx.raw(&request));
            assert_eq!((status, reason.as_str()), expected, "{request:?}");
        }
    }

    #[test]
    fn with_resource_names_irregular_plural() {
        let kind = GroupVersionKind::new("e.dev/v1", "Goose");
        let cluster = Cluster::new().with_resource(&kind, "geese");
        let path = "/apis/e.dev/v1/namespaces/ns/geese";
        let goose = json!({"apiVersion": "e.dev/v1", "kind": "Goose", "metadata": {"name": "g", "finalizers": ["f"]}});
        let made = cluster.context().raw(&RawRequest::post(path).json(&goose));
        assert_eq!(made.status, 201, "{}", made.body);
        let left: crate::DynamicObject =
            cluster.context().raw(&RawRequest::delete(format!("{path}/g"))).json().expect("accepted");
        assert!(left.is_being_deleted(), "it has a finalizer");
    }
}
