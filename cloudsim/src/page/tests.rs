//! Tests of login links and cookies.

use http::Request;
use record::Side;

use super::*;

fn page() -> Page {
    Page::new(Window::new("cloudsim", Side::Cloud), &[])
}

fn parts(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:6443");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// Logs in as the administrator, and returns the cookie.
fn login(page: &Page) -> String {
    let link = page.login_link(Identity::master().into());
    let answer = page.answer(&parts("GET", &link.path, &[]));
    assert_eq!(answer.status(), 303);
    assert_eq!(answer.headers()["location"], "/ui/");
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    for attribute in ["HttpOnly", "Secure", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(cookie.starts_with("__Host-cloudsim-6443="), "{cookie}");
    let again = page.answer(&parts("GET", &link.path, &[]));
    assert_eq!(again.status(), 403);
    cookie.split(';').next().unwrap().to_owned()
}

/// Returns a client of an API without any object.
fn empty_api() -> Client {
    let service = tower::service_fn(async |_| {
        let mut response = Response::new(Full::new(Bytes::from_static(
            br#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#,
        )));
        *response.status_mut() = StatusCode::NOT_FOUND;
        Ok::<_, std::convert::Infallible>(response)
    });
    kubeapi::client_of(service, "default")
}

async fn user(page: &Page, headers: &[(&str, &str)]) -> Option<Identity> {
    let mut parts = parts("GET", "/api/v1/pods", headers);
    page.authenticate(&mut parts, &empty_api()).await;
    parts.extensions.get().cloned()
}

#[tokio::test]
async fn cookie_authenticates_requests_of_the_page_until_logout() {
    let page = page();
    let cookie = login(&page);
    let header = ("x-cloudsim-page", "1");
    let with_cookie = ("cookie", cookie.as_str());
    assert_eq!(
        user(&page, &[header, with_cookie]).await,
        Some(Identity::master())
    );
    assert_eq!(user(&page, &[with_cookie]).await, None);
    assert_eq!(user(&page, &[header]).await, None);
    let other = cookie.replace("6443", "6444");
    assert_eq!(user(&page, &[header, ("cookie", &other)]).await, None);
    // a token is checked, and the cookie does not replace it
    let token = ("authorization", "Bearer x");
    assert_eq!(user(&page, &[header, with_cookie, token]).await, None);
    let origin = ("origin", "https://127.0.0.1:6443");
    let logout = |headers: &[(&str, &str)]| page.answer(&parts("POST", "/ui/logout", headers));
    assert_eq!(logout(&[with_cookie, header]).status(), 403);
    assert!(user(&page, &[header, with_cookie]).await.is_some());
    assert_eq!(logout(&[with_cookie, header, origin]).status(), 200);
    assert_eq!(user(&page, &[header, with_cookie]).await, None);
}

#[test]
fn used_link_leads_to_the_page_if_there_is_a_session() {
    let page = page();
    let cookie = login(&page);
    let used = parts("GET", "/ui/login?code=used", &[("cookie", &cookie)]);
    assert_eq!(page.answer(&used).status(), 303);
}

#[test]
fn link_of_another_site_or_for_another_name_does_not_log_in() {
    let page = page();
    let link = page.login_link(Identity::master().into());
    let other = parts("GET", &link.path, &[("sec-fetch-site", "cross-site")]);
    assert_eq!(page.answer(&other).status(), 403);
    let mut rebound = parts("GET", &link.path, &[]);
    let name = HeaderValue::from_static("evil.example.com:6443");
    rebound.headers.insert(header::HOST, name);
    assert_eq!(page.answer(&rebound).status(), 421);
    let own = parts("GET", &link.path, &[("sec-fetch-site", "none")]);
    assert_eq!(page.answer(&own).status(), 303);
}

#[test]
fn login_ends_the_earlier_session_of_the_browser() {
    let page = page();
    let earlier = login(&page);
    let link = page.login_link(Identity::master().into());
    let again = parts("GET", &link.path, &[("cookie", &earlier)]);
    assert_eq!(page.answer(&again).status(), 303);
    let (_, id) = earlier.split_once('=').unwrap();
    assert_eq!(page.sessions.user(id, Instant::now()), None);
}

#[tokio::test]
async fn session_of_a_deleted_account_ends_at_the_next_check() {
    let page = page();
    let account = Identity::service_account("default", "viewer");
    let code = page.sessions.add_code(account.into(), Instant::now());
    let long_ago = Instant::now() - sessions::CHECK_INTERVAL;
    let (id, ..) = page.sessions.begin(&code, long_ago).unwrap();
    let cookie = format!("__Host-cloudsim-6443={id}");
    let headers = [("x-cloudsim-page", "1"), ("cookie", cookie.as_str())];
    assert_eq!(user(&page, &headers).await, None);
    assert_eq!(page.sessions.user(&id, Instant::now()), None);
}

#[tokio::test]
async fn requests_are_sent_on_with_tokens_only_before_a_cluster() {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::AUTHORIZATION,
        HeaderValue::from_static("Bearer abc"),
    );
    let account = Identity::service_account("default", "viewer");
    for (page, expected) in [(page(), None), (page().keep_tokens(), Some("Bearer abc"))] {
        let link = page.login_link(Visitor::new(account.clone(), &headers));
        let answer = page.answer(&parts("GET", &link.path, &[]));
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap();
        let mut request = parts(
            "GET",
            "/api/v1/pods",
            &[("cookie", cookie), ("x-cloudsim-page", "1")],
        );
        page.authenticate(&mut request, &empty_api()).await;
        let token = request.headers.get(header::AUTHORIZATION);
        assert_eq!(token.map(|value| value.to_str().unwrap()), expected);
        assert_eq!(
            request.extensions.get::<Identity>().is_some(),
            expected.is_none()
        );
    }
}
