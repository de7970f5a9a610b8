//! The service: routes a request and answers it.

use std::{
    cell::OnceCell,
    convert::Infallible,
    fmt::Display,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::Mutex;
use serde_json::Value;
use tower::Service;

use super::{
    audit::Trail,
    body::Body,
    call::{Answer, Call, agent},
    create, delete,
    handler::{Handler, HandlerRequest},
    list,
    negotiate::{negotiate, patch_kind},
    patch,
    path::{self, Path, ResourcePath},
    query::Query,
    read_object::body_as_json,
    represent,
    resource::{Flavor, Part, Resource},
    respond::{self, Wishes},
    root, scale,
    state::{ApiServer, BODY_LIMIT, State},
    update,
    view::View,
    watch,
};
use crate::{
    apimachinery::{
        attributes::{Attributes, escape_html},
        json,
        status::Status,
    },
    authn::user::User,
    authz::request_info,
    golang::quote,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (state, mut request) = (Arc::clone(&self.state), request);
        if let Some(user) = &self.trusted {
            request.extensions_mut().insert(user.clone());
        }
        Box::pin(async move { Ok(answer(&state, request).await) })
    }
}

/// A refused request: an error, or the plain text of a path that nothing serves.
enum Refusal {
    Error(Status),
    NotServed,
}

impl From<Status> for Refusal {
    fn from(error: Status) -> Self {
        Self::Error(error)
    }
}

async fn answer<B>(state: &Arc<State>, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Display,
{
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let path = path::parse(parts.uri.path());
    let wishes = Wishes {
        headers: &parts.headers,
        query: &query,
        is_read: parts.method == Method::GET,
    };

    let (method, uri) = (parts.method.as_str(), parts.uri.path());
    let Some(mut attributes) = request_info::attributes(User::default(), method, uri, &query.0)
    else {
        return no_resource(&parts, &wishes);
    };

    let requester = match state.access.authenticate(&parts, &attributes) {
        Ok(requester) => requester,
        Err(error) => return respond::error(&wishes, &error, &[]),
    };
    let begin = |sink| Trail::begin(sink, &state.environment, (&parts, &attributes), &requester);
    let mut trail = state.audit.as_ref().map(begin);
    let is_watch = attributes.verb == "watch";

    attributes.user = requester.user;
    let answered = async {
        state.access.authorize(&attributes)?;
        let Path::Resource(resource_path) = &path else {
            let answer = root::answer(state, &parts.method, &path, &parts.headers, &query)?;
            return Ok(answer.response(&wishes));
        };

        let route = route(state, &parts, resource_path, &attributes)?;
        let body = read_body(&parts.method, body).await?;
        if let Some(trail) = &mut trail {
            trail.name(&parts.method, &body);
        }

        let routed = Routed {
            parts: &parts,
            path: resource_path,
            query: &query,
            attributes: &attributes,
        };

        dispatch(state, &routed, route, &body)
            .await
            .map_err(Refusal::from)
    };

    let response = match answered.await {
        Ok(response) => response,
        Err(Refusal::NotServed) => root::not_found().response(&wishes),
        Err(Refusal::Error(error)) => respond::error(&wishes, &error, &[]),
    };

    match trail {
        Some(mut trail) if is_watch && response.status().is_success() => {
            let ending = trail.started();
            response.map(|body| body.keeping(ending))
        }
        Some(mut trail) => {
            trail.complete(response.status().as_u16());
            response
        }
        None => response,
    }
}

/// Answers a request whose path has a verb but no resource, as kube-apiserver's
/// `responsewriters.InternalError` does.
fn no_resource(parts: &Parts, wishes: &Wishes<'_>) -> Response<Body> {
    let uri = parts.uri.to_string();
    let text = format!(
        "Internal Server Error: {}: failed to create RequestInfo: unable to determine kind and \
         namespace from url, {uri}\n",
        quote(&uri)
    );

    respond::text(wishes, 500, escape_html(&text))
}

/// The target of a request.
struct Route {
    resource: Arc<Resource>,
    target: Target,
}

enum Target {
    /// The object itself.
    Main,
    Status,
    Scale,
    Finalize,
    /// Something else than the store.
    Handler(Arc<dyn Handler>),
}

/// Finds what answers a request. The order of the checks is the API server's.
fn route(
    state: &State,
    parts: &Parts,
    path: &ResourcePath,
    attributes: &Attributes,
) -> Result<Route, Refusal> {
    let Some(resource) = state
        .resources
        .get(&path.group, &path.version, &path.resource)
    else {
        let siblings = state
            .resources
            .in_version(&path.group, &path.version)
            .unwrap_or_default();
        let is_built_in =
            path.group.is_empty() || siblings.iter().any(|other| other.flavor == Flavor::BuiltIn);

        return Err(if is_built_in {
            Status::no_such_path().into()
        } else {
            Refusal::NotServed
        });
    };

    let target = match resource.flavor {
        Flavor::BuiltIn => route_built_in(&resource, parts, path, &attributes.verb)?,
        Flavor::Custom => route_custom(&resource, parts, path, &attributes.verb)?,
    };
    Ok(Route { resource, target })
}

fn route_built_in(
    resource: &Resource,
    parts: &Parts,
    path: &ResourcePath,
    verb: &str,
) -> Result<Target, Status> {
    if path.namespace.is_some() && !resource.namespaced {
        return Err(Status::no_such_path());
    }
    // The verb of these paths is `watch`, whatever the method.
    if path.watch && !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }

    if resource.namespaced && path.namespace.is_none() {
        match (&path.name, verb) {
            (None, "list" | "watch") => {}
            (None, _) if resource.handler.is_some() => {}
            (None, _) => return Err(Status::method_not_allowed()),
            (Some(_), _) => return Err(Status::no_such_path()),
        }
    }

    let (target, verbs) = find_target(resource, path).ok_or_else(Status::no_such_path)?;
    let takes_name = path.name.is_some();
    let fits = match verb {
        "create" => !takes_name || !path.subresource.is_empty(),
        "update" | "patch" => takes_name,
        _ => true,
    };
    if !fits || !verbs.contains(&verb) {
        return Err(Status::method_not_allowed());
    }

    if verb == "patch" {
        patch_kind(&parts.headers, resource.flavor)?;
    }

    root::check_accept(&parts.headers, matches!(verb, "list" | "watch"))?;

    Ok(target)
}

fn route_custom(
    resource: &Resource,
    parts: &Parts,
    path: &ResourcePath,
    verb: &str,
) -> Result<Target, Refusal> {
    let is_namespaced = path.namespace.is_some();
    let crosses_namespaces =
        resource.namespaced && !is_namespaced && !matches!(verb, "list" | "watch");
    if (!resource.namespaced && is_namespaced) || crosses_namespaces {
        return Err(Refusal::NotServed);
    }

    let group_resource = resource.group_resource();
    let Some((target, verbs)) = find_target(resource, path) else {
        return Err(
            Status::not_found(&group_resource, path.name.as_deref().unwrap_or_default()).into(),
        );
    };
    if !verbs.contains(&verb) {
        let mut error = Status::verb_not_supported(&group_resource, verb);
        error.code = 405;
        return Err(error.into());
    }
    if path.name.is_none() && matches!(verb, "update" | "patch") {
        return Err(Status::bad_request("name must be provided").into());
    }

    if verb == "patch" {
        patch_kind(&parts.headers, resource.flavor)?;
    }

    Ok(target)
}

/// Returns what answers for a subresource or the resource itself, with the verbs that it has.
fn find_target(resource: &Resource, path: &ResourcePath) -> Option<(Target, Vec<&'static str>)> {
    let changeable = vec!["get", "patch", "update"];
    match path.subresource.as_str() {
        "" => match &resource.handler {
            Some(handler) => Some((Target::Handler(Arc::clone(handler)), resource.verbs.clone())),
            None => Some((
                Target::Main,
                [
                    resource.verbs.clone(),
                    resource.rules.unlisted_verbs.clone(),
                ]
                .concat(),
            )),
        },
        "status" if resource.subresources.status => Some((Target::Status, changeable)),
        "scale" if resource.subresources.scale.is_some() => Some((Target::Scale, changeable)),
        "finalize" if resource.group.is_empty() && resource.names.plural == "namespaces" => {
            Some((Target::Finalize, vec!["update"]))
        }
        name => {
            let found = resource.subresources.others.get(name)?;
            Some((
                Target::Handler(Arc::clone(&found.handler)),
                found.verbs.clone(),
            ))
        }
    }
}

async fn read_body<B>(method: &Method, body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Display,
{
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(Bytes::new());
    }

    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::request_entity_too_large(BODY_LIMIT))
        }
        Err(error) => Err(Status::bad_request(format!(
            "failed to read the body: {error}"
        ))),
    }
}

/// A request whose resource was found.
struct Routed<'a> {
    parts: &'a Parts,
    path: &'a ResourcePath,
    query: &'a Query,
    attributes: &'a Attributes,
}

async fn dispatch(
    state: &Arc<State>,
    routed: &Routed<'_>,
    route: Route,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let verb = routed.attributes.verb.as_str();
    let headers = &routed.parts.headers;
    let wishes = Wishes {
        headers,
        query: routed.query,
        is_read: routed.parts.method == Method::GET,
    };

    let view = View {
        resource: Arc::clone(&route.resource),
        accepted: negotiate(headers)?,
        include_object: routed.query.text("includeObject").to_owned(),
        now: state.environment.now(),
    };
    let call_warnings = view.resource.strategy.deprecation().into_iter().collect();
    let call = Call {
        state,
        view,
        path: routed.path,
        query: routed.query,
        headers,
        agent: agent(headers),
        attributes: routed.attributes,
        endpoints: OnceCell::new(),
        body,
        warnings: Mutex::new(call_warnings),
    };

    if matches!(verb, "get" | "list") && !matches!(route.target, Target::Handler(_)) {
        let is_list = verb == "list";
        if is_list {
            list::check(&call)?;
        }
        list::wait_for_revision(&state.store, routed.query.text("resourceVersion"), is_list)
            .await?;
    }

    if verb == "watch" && matches!(route.target, Target::Main) {
        return watch::watch(&call, routed.path.name.as_deref())
            .map(|events| stream_response(Body::stream(events)));
    }

    let performed = perform(&call, &route.target, verb);
    let warnings = call.warnings.into_inner();
    Ok(match performed {
        Ok((code, text)) => respond::json(&wishes, code, text, &warnings),
        Err(error) => respond::error(&wishes, &error, &warnings),
    })
}

fn stream_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );

    response
}

fn perform(call: &Call<'_>, target: &Target, verb: &str) -> Result<(u16, Vec<u8>), Status> {
    let answer = match (target, verb) {
        (Target::Handler(handler), _) => handle(call, handler.as_ref())?,
        (Target::Scale, verb) => scale::scale(call, verb)?,
        (Target::Finalize, _) => update::update(call, Part::Finalize)?,
        (Target::Main, "list") => {
            let page = list::page(call)?;
            return represent::list(&call.view, &page).map(|text| (200, text));
        }
        (Target::Main, "deletecollection") => {
            let page = delete::delete_collection(call)?;
            return represent::list(&call.view, &page).map(|text| (200, text));
        }
        (Target::Main | Target::Status, "get") => list::get(call)?,
        (Target::Main, "create") => create::create(call)?,
        (Target::Main, "update") => update::update(call, Part::Main)?,
        (Target::Status, "update") => update::update(call, Part::Status)?,
        (Target::Main, "patch") => patch::patch(call, Part::Main)?,
        (Target::Status, "patch") => patch::patch(call, Part::Status)?,
        (Target::Main, "delete") => delete::delete(call)?,
        _ => return Err(Status::method_not_allowed()),
    };

    represent::answer(&call.view, answer)
}

fn handle(call: &Call<'_>, handler: &dyn Handler) -> Result<Answer, Status> {
    let body = if call.path.subresource.is_empty() && call.attributes.verb == "create" {
        create::read(call)?
    } else if call.body.is_empty() {
        Value::Null
    } else {
        json::read(&body_as_json(call, Status::bad_request)?.text)
            .map_err(|error| Status::bad_request(error.to_string()))?
    };

    let request = HandlerRequest {
        attributes: call.attributes,
        query: &call.query.0,
        body,
        manager: call.manager(call.query.text("fieldManager")),
        now: call.view.now,
    };

    handler
        .handle(&request)
        .map(|(code, value)| Answer::Plain(code, value))
}
