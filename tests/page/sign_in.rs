//! Who gets in.

use operetta_testkit::https;

use crate::{Stage, browser::Browser, token};

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

#[tokio::test]
async fn sign_in_keeps_a_valid_token_in_a_strict_cookie() {
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
    assert_eq!(
        (response.status, response.header("location")),
        (303, "/page/kinds?q=a"),
        "{response:?}"
    );

    let cookie = response.header("set-cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/page"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(
        cookie.starts_with(&format!("operetta-token={token};")) && !cookie.contains("Secure"),
        "{cookie}"
    );

    let policy = response.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );

    assert_eq!(response.header("x-content-type-options"), "nosniff");
    assert_eq!(response.header("referrer-policy"), "no-referrer");
    assert_eq!(response.header("cache-control"), "no-store");

    let user = Browser::new(stage.host.admin_address(), Some(&token));
    let me = user.get("/page/api/me").await.json();
    assert_eq!(
        me["user"],
        format!("system:serviceaccount:{}:user", stage.namespace.name())
    );

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
        assert_eq!(
            (response.status, response.header("location")),
            (303, "/page/plugins"),
            "{next}"
        );
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
            let response = user.request("POST", path, headers, &form(&token, "")).await;
            assert_eq!(response.status, 403, "{path} {headers:?}");
            assert!(
                !response.headers.contains_key("set-cookie"),
                "{path} {headers:?}"
            );
        }
    }

    let out = user.request("POST", "/page/sign-out", &same, "").await;
    assert!(
        out.status == 303
            && out
                .header("set-cookie")
                .starts_with("operetta-token=; Max-Age=0"),
        "{out:?}"
    );

    stage.host.assert_sound();
}

#[tokio::test]
async fn secure_endpoints_serve_the_page_and_probes_do_not() {
    let stage = Stage::new("secure").await;
    let secure = stage.host.logged("secure").expect("an address");
    let cookie = format!("operetta-token={}", token(&stage.namespace, "user"));
    let (status, text) = https::get(&secure, "/page/api/me", &[("cookie", &cookie)]).await;
    assert!(status == 200 && text.contains(":user\""), "{status} {text}");

    let (status, _) = https::get(&secure, "/page/api/me", &[]).await;
    assert_eq!(status, 401);

    // The other endpoints take no cookie, which another site's form could bring.
    let (status, _) = https::get(&secure, "/metrics", &[("cookie", &cookie)]).await;
    assert_eq!(status, 401);
}
