//! The three forms of a function that reconciles.

use std::marker::PhantomData;

use crate::json::decode;
use crate::options::Read;
use crate::{Action, Context, Error, GroupVersionKind, Kind, Request};

/// A reconcile function of any form. It returns `None` if the object does not exist and the
/// author's function was not called.
pub(crate) type MaybeReconcileFn = Box<dyn Fn(&Context, &Request) -> Result<Option<Action>, Error>>;

/// A function that reconciles. Its second argument decides its form:
///
/// | function | second argument |
/// |---|---|
/// | `fn(&Context, &Request)` | the key; read the objects yourself, and name the kind with [`Controller::for_`] |
/// | `fn(&Context, Foo)` | the object; if it does not exist, [`Controller::when_gone`] is called instead |
/// | `fn(&Context, Option<Foo>)` | the object, or `None` if it does not exist |
///
/// A closure needs the types of its arguments: `|ctx: &Context, foo: Foo| …`. The compiler infers
/// `Form`.
///
/// [`Controller::for_`]: crate::Controller::for_
/// [`Controller::when_gone`]: crate::Controller::when_gone
pub trait Reconciler<Form> {
    #[doc(hidden)]
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>);
}

/// The form `fn(&Context, &Request)`.
#[doc(hidden)]
#[derive(Debug)]
pub enum ByRequest {}

/// The form `fn(&Context, T)`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByObject<T>(PhantomData<T>);

/// The form `fn(&Context, Option<T>)`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByOption<T>(PhantomData<T>);

impl<F> Reconciler<ByRequest> for F
where
    F: Fn(&Context, &Request) -> Result<Action, Error> + 'static,
{
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>) {
        (
            Box::new(move |ctx, request| self(ctx, request).map(Some)),
            None,
        )
    }
}

impl<T, F> Reconciler<ByObject<T>> for F
where
    T: Kind,
    F: Fn(&Context, T) -> Result<Action, Error> + 'static,
{
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>) {
        let call: MaybeReconcileFn = Box::new(move |ctx, request| {
            fetch(ctx, request)?
                .map(|object| self(ctx, object))
                .transpose()
        });

        (call, Some(T::gvk()))
    }
}

impl<T, F> Reconciler<ByOption<T>> for F
where
    T: Kind,
    F: Fn(&Context, Option<T>) -> Result<Action, Error> + 'static,
{
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>) {
        let call: MaybeReconcileFn =
            Box::new(move |ctx, request| self(ctx, fetch(ctx, request)?).map(Some));
        (call, Some(T::gvk()))
    }
}

/// Reads the object of a request from the cache. An object that does not fit its type is a terminal
/// error: it is not read again until it changes.
fn fetch<T: Kind>(ctx: &Context, request: &Request) -> Result<Option<T>, Error> {
    let kind = T::gvk();
    match ctx.read_text(&kind, &request.key, Read::Cached) {
        Ok(text) => decode(&kind, &text)
            .map(Some)
            .map_err(|error| Error::from(error).into_terminal()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
