//! The derive macro of `operetta-sdk`. Use it as `operetta_sdk::Resource`; its documentation is
//! there.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Error, Ident, LitStr, Path, Result, Token, Type, parse_macro_input};

/// Derives a custom resource from the struct of its spec. See `operetta_sdk::Resource`.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    resource(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

/// The arguments of `#[resource(…)]`.
#[derive(Default)]
struct Arguments {
    group: Option<LitStr>,
    version: Option<LitStr>,
    kind: Option<LitStr>,
    status: Option<Type>,
    derives: Vec<Path>,
}

impl Arguments {
    /// Reads every `#[resource(…)]` of the struct.
    ///
    /// # Errors
    /// Returns an error at an unknown argument, and at one of the wrong form.
    fn parse(input: &DeriveInput) -> Result<Self> {
        let mut arguments = Self::default();
        for attribute in input
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("resource"))
        {
            attribute.parse_nested_meta(|meta| {
                let text = || meta.value()?.parse::<LitStr>();
                if meta.path.is_ident("group") {
                    arguments.group = Some(text()?);
                } else if meta.path.is_ident("version") {
                    arguments.version = Some(text()?);
                } else if meta.path.is_ident("kind") {
                    arguments.kind = Some(text()?);
                } else if meta.path.is_ident("status") {
                    arguments.status = Some(text()?.parse()?);
                } else if meta.path.is_ident("derive") {
                    let paths =
                        text()?.parse_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
                    arguments.derives.extend(paths);
                } else {
                    return Err(meta.error("expected one of group, version, kind, status, derive"));
                }
                Ok(())
            })?;
        }
        Ok(arguments)
    }
}

/// Builds the error about a missing argument.
fn missing(input: &DeriveInput, name: &str) -> Error {
    let text = format!(
        "#[resource({name} = \"…\")] is missing, e.g. \
        #[resource(group = \"example.com\", version = \"v1\", kind = \"Foo\")]"
    );
    Error::new_spanned(&input.ident, text)
}

/// Returns the kind's struct with its implementation of `Kind`.
///
/// # Errors
/// Returns an error if an argument is missing or wrong.
fn resource(input: &DeriveInput) -> Result<TokenStream> {
    let Arguments {
        group,
        version,
        kind,
        status,
        derives,
    } = Arguments::parse(input)?;

    let group = group.ok_or_else(|| missing(input, "group"))?;
    let version = version.ok_or_else(|| missing(input, "version"))?;
    let kind = kind.ok_or_else(|| missing(input, "kind"))?;

    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "the spec of a resource has no type parameters",
        ));
    }

    let api_version = format!("{}/{}", group.value(), version.value());
    let name = syn::parse_str::<Ident>(&kind.value())
        .map_err(|_| Error::new_spanned(&kind, "the kind is not a valid struct name"))?;
    let name = format_ident!("{name}", span = kind.span());

    let spec = &input.ident;
    let visibility = &input.vis;
    let doc = format!("A `{name}` of `{api_version}`.");
    let new_doc = format!(
        "Returns a `{name}` with a key and a spec, as it is before the API server stores it."
    );

    let (status_field, no_status) = match &status {
        Some(status) => (
            quote! {
                /// The observed state.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub status: ::core::option::Option<#status>,
            },
            quote! { status: ::core::option::Option::None, },
        ),
        None => (TokenStream::new(), TokenStream::new()),
    };

    Ok(quote! {
        #[doc = #doc]
        #[derive(
            Clone,
            Debug,
            ::operetta_sdk::__private::serde::Serialize,
            ::operetta_sdk::__private::serde::Deserialize,
            #(#derives),*
        )]
        #[serde(crate = "::operetta_sdk::__private::serde")]
        #visibility struct #name {
            /// The name, the namespace, the labels and so on.
            pub metadata: ::operetta_sdk::ObjectMeta,
            /// The desired state.
            pub spec: #spec,
            #status_field
        }

        impl #name {
            #[doc = #new_doc]
            #visibility fn new(key: impl ::core::convert::Into<::operetta_sdk::ObjectKey>, spec: #spec) -> Self {
                Self { metadata: ::operetta_sdk::object_meta(key), spec, #no_status }
            }
        }

        ::operetta_sdk::kind!(#name, #api_version, #kind);
    })
}
