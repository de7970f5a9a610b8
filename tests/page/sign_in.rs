//! Who gets in.

use operetta_testkit::https;

use crate::{
    Stage,
    browser::{Browser, Response},
    token,
};

/// What a browser keeps of a sign-in.
struct Session {
    /// The cookie, as it is sent back.
    cookie: String,
    secret: String,
}

impl Session {
    fn of(response: &Response) -> Self {
        let attribute = "data-secret=\"";
        let secret = response.body.split(attribute).nth(1);
        let secret = secret.and_then(|rest| rest.split('"').next());
        let cookie = response.header("set-cookie").split(';').next();
        Self {
            cookie: cookie.unwrap_or_default().to_owned(),
            secret: secret.unwrap_or_default().to_owned(),
        }
    }
}

#[tokio::test]
async fn nothing_but_assets_is_served_without_a_token() {
    let stage = Stage::new("nobody").await;
    let nobody = Browser::new(stage.host.admin_address(), None);
    for path in [
        "/page/",
        "/page/plugins",
        "/page/kinds",
        "/page/tenants",
        "/page/nowhere",
    ] {
        let response = nobody.get(path).await;
        assert_eq!(response.status, 303, "{path}: {response:?}");
        let next = path.replace('/', "%2F");
        assert_eq!(
            response.header("location"),
            format!("/page/sign-in?next={next}"),
            "{path}"
        );
    }

    for path in [
        "/page/api/me",
        "/page/api/plugins",
        "/page/api/kinds",
        "/page/api/nowhere",
    ] {
        let response = nobody.get(path).await;
        assert_eq!(
            (response.status, response.json()["reason"].as_str()),
            (401, Some("TokenMissing")),
            "{path}"
        );
    }

    let wrong = Browser::new(stage.host.admin_address(), Some("no.such-token"));
    let response = wrong.get("/page/api/me").await;
    assert_eq!(
        (response.status, response.json()["reason"].as_str()),
        (401, Some("TokenRefused"))
    );
    assert_eq!(wrong.get("/page/plugins").await.status, 303);

    let form = nobody.get("/page/sign-in?next=/page/kinds").await;
    assert!(
        form.status == 200 && form.body.contains("value=\"/page/kinds\""),
        "{form:?}"
    );

    let script = form
        .body
        .split("/page/assets/")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("an asset");

    let asset = nobody.get(&format!("/page/assets/{script}")).await;
    assert!(
        asset.status == 200 && asset.header("cache-control").contains("immutable"),
        "{asset:?}"
    );

    stage.host.assert_sound();
}

/// Reports whether a response to a sign-in goes on to this path.
fn goes_to(response: &Response, path: &str) -> bool {
    response.status == 200 && response.body.contains(&format!("data-next=\"{path}\""))
}

#[tokio::test]
async fn sign_in_keeps_the_token_from_the_browser() {
    let stage = Stage::new("sign-in").await;
    let nobody = Browser::new(stage.host.admin_address(), None);
    let origin = format!("http://{}", stage.host.admin_address());
    let same = [
        ("origin", origin.as_str()),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let token = token(&stage.namespace, "user");
    let form = |token: &str, next: &str| format!("token={token}&next={next}");

    let response = nobody
        .request(
            "POST",
            "/page/sign-in",
            &same,
            &form(&token, "/page/kinds?q=a"),
        )
        .await;
    assert!(goes_to(&response, "/page/kinds?q=a"), "{response:?}");
    assert!(!format!("{response:?}").contains(&token), "{response:?}");

    let cookie = response.header("set-cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/page"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let Session { cookie: id, secret } = Session::of(&response);
    let (digits, epoch) = id["operetta-session=".len()..]
        .split_once('.')
        .expect("an id and the epoch of the replica");
    assert!(
        digits.len() == 64 && epoch.parse::<u32>().is_ok(),
        "{cookie}"
    );
    assert!(
        secret.len() == 64 && !id.ends_with(&secret) && !cookie.contains("Secure"),
        "{response:?}"
    );

    let policy = response.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );

    assert_eq!(response.header("x-content-type-options"), "nosniff");
    assert_eq!(response.header("referrer-policy"), "no-referrer");
    assert_eq!(response.header("cache-control"), "no-store");

    let user = format!("system:serviceaccount:{}:user", stage.namespace.name());
    let both = [
        ("cookie", id.as_str()),
        ("x-operetta-session", secret.as_str()),
    ];
    let me = nobody.request("GET", "/page/api/me", &both, "").await;
    assert_eq!(me.json()["user"], user);

    // Another port's server gets the cookie of whoever visits it, and nothing for it.
    let api = nobody.request("GET", "/page/api/me", &both[..1], "").await;
    assert_eq!(
        (api.status, api.json()["reason"].as_str()),
        (401, Some("TokenMissing"))
    );
    let shell = nobody.request("GET", "/page/plugins", &both[..1], "").await;
    assert!(
        shell.status == 200 && shell.body.contains("<script") && !shell.body.contains(&user),
        "{shell:?}"
    );
    let swapped = [("cookie", id.as_str()), ("x-operetta-session", digits)];
    let api = nobody.request("GET", "/page/api/me", &swapped, "").await;
    assert_eq!(api.status, 401);

    // No redirect to another site.
    for next in [
        "https://evil.example",
        "//evil.example/page/",
        "/page/..//evil.example",
        "%2Fpage%2F%5Cevil.example",
    ] {
        let response = nobody
            .request("POST", "/page/sign-in", &same, &form(&token, next))
            .await;
        assert!(goes_to(&response, "/page/plugins"), "{next}: {response:?}");
    }

    // The form again, with the reason.
    for wrong in ["no.such-token", "", "<b>no</b>", "a%0d%0aSet-Cookie:b=c"] {
        let response = nobody
            .request("POST", "/page/sign-in", &same, &form(wrong, "/page/kinds"))
            .await;
        assert!(
            response.status == 401 && response.body.contains("role=\"alert\""),
            "{wrong}: {response:?}"
        );
        assert!(
            !response.headers.contains_key("set-cookie") && !response.body.contains("<b>no"),
            "{response:?}"
        );
    }

    let hosts_only =
        stage
            .namespace
            .kubectl(&["create", "token", "user", "--audience=operetta.dev"]);
    let response = nobody
        .request("POST", "/page/sign-in", &same, &form(hosts_only.trim(), ""))
        .await;
    assert!(
        response.status == 401 && response.body.contains("audience"),
        "{response:?}"
    );

    // Another site can neither sign a user in nor out.
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[],
    ] {
        for path in ["/page/sign-in", "/page/sign-out"] {
            let headers = [headers, &both].concat();
            let response = nobody
                .request("POST", path, &headers, &form(&token, ""))
                .await;
            assert_eq!(response.status, 403, "{path} {headers:?}");
            assert!(
                !response.headers.contains_key("set-cookie"),
                "{path} {headers:?}"
            );
        }
    }

    // Without the secret, only the browser's cookie goes.
    let kept = [&same[..], &both[..1]].concat();
    nobody.request("POST", "/page/sign-out", &kept, "").await;
    let me = nobody.request("GET", "/page/api/me", &both, "").await;
    assert_eq!(me.status, 200);

    let with_secret = [&same[..], &both].concat();
    let out = nobody
        .request("POST", "/page/sign-out", &with_secret, "")
        .await;
    assert!(
        out.status == 303
            && out
                .header("set-cookie")
                .starts_with("operetta-session=; Max-Age=0"),
        "{out:?}"
    );
    let me = nobody.request("GET", "/page/api/me", &both, "").await;
    assert_eq!(me.status, 401);
    let shell = nobody.request("GET", "/page/plugins", &both[..1], "").await;
    assert_eq!(shell.status, 303);

    stage.host.assert_sound();
}

#[tokio::test]
async fn secure_endpoints_serve_the_page_and_probes_do_not() {
    let stage = Stage::new("secure").await;
    let secure = stage.host.logged("secure").expect("an address");
    let token = token(&stage.namespace, "user");
    let authorization = format!("Bearer {token}");
    let bearer = [("authorization", authorization.as_str())];
    let (status, text) = https::get(&secure, "/page/api/me", &bearer).await;
    assert!(status == 200 && text.contains(":user\""), "{status} {text}");

    let (status, _) = https::get(&secure, "/page/api/me", &[]).await;
    assert_eq!(status, 401);

    // The other endpoints take no session, even one with its secret.
    let origin = format!("http://{}", stage.host.admin_address());
    let signed_in = Browser::new(stage.host.admin_address(), None)
        .request(
            "POST",
            "/page/sign-in",
            &[("origin", &origin)],
            &format!("token={token}"),
        )
        .await;
    let Session { cookie, secret } = Session::of(&signed_in);
    let both = [
        ("cookie", cookie.as_str()),
        ("x-operetta-session", secret.as_str()),
    ];
    let (status, _) = https::get(&secure, "/page/api/me", &both).await;
    assert_eq!(status, 200);
    let (status, _) = https::get(&secure, "/metrics", &both).await;
    assert_eq!(status, 401);
}
