//! The live page: its files below `/ui/`, login links and sessions. With a session's cookie, the page uses the API on the same port as
//! the user who logged in.

mod account;
mod origin;
mod sessions;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use clock::Instant;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kubeapi::{Body, Identity};
use record::{Window, WindowReader};
use tracing::info;

pub(crate) use self::{account::is_valid, origin::authority, sessions::Visitor};
use self::{
    origin::{is_for, is_from_other_site, is_from_page},
    sessions::Sessions,
};

/// The path of login links.
const LOGIN: &str = "/ui/login";
/// The path that ends a session.
const LOGOUT: &str = "/ui/logout";

/// The page of one cloud; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    sessions: Sessions,
    window: Window,
    /// The names of the cloud.
    names: Arc<[String]>,
    /// Whether requests are sent on with the tokens of their users.
    keeps_tokens: bool,
}

/// The session of a request.
#[derive(Clone, Debug)]
pub(crate) struct SessionId(String);

impl Page {
    /// Creates the page of a cloud with these names, which shows the messages of this window.
    pub(crate) fn new(window: Window, names: &[String]) -> Self {
        Self {
            sessions: Sessions::default(),
            window,
            names: names.into(),
            keeps_tokens: false,
        }
    }

    /// Sends requests on with the tokens with which their users logged in: another server authenticates them.
    pub(crate) fn keep_tokens(self) -> Self {
        Self {
            keeps_tokens: true,
            ..self
        }
    }

    /// Creates a login link for a user: a path that is valid once, for a few minutes.
    pub(crate) fn login_link(&self, visitor: Visitor) -> LoginLink {
        let code = self.sessions.add_code(visitor, Instant::now());
        LoginLink {
            path: format!("{LOGIN}?code={code}"),
            lifetime: sessions::CODE_LIFETIME,
        }
    }

    /// Returns a reader of what the cloud and its nodes send to each other.
    pub(crate) fn messages(&self) -> WindowReader {
        self.window.reader()
    }

    /// Identifies the caller of an API request by the cookie, if the page has sent the request. Other credentials come first.
    pub(crate) async fn authenticate(&self, parts: &mut Parts, client: &Client) {
        let has_own = parts.extensions.get::<Identity>().is_some()
            || parts.headers.contains_key(header::AUTHORIZATION);
        if has_own || !is_from_page(parts) || !is_for(&self.names, parts) {
            return;
        }
        let Some(id) = session_id(parts) else {
            return;
        };
        let session = SessionId(id);
        let Some(Visitor { identity, token }) = self.visitor(&session, client).await else {
            return;
        };
        parts.extensions.insert(session);
        let token = token.filter(|_| self.keeps_tokens);
        match token.map(|token| HeaderValue::try_from(format!("Bearer {}", token.0))) {
            None => drop(parts.extensions.insert(identity)),
            Some(Ok(mut value)) => {
                value.set_sensitive(true);
                parts.headers.insert(header::AUTHORIZATION, value);
            }
            // the token came in a header
            Some(Err(_)) => {}
        }
    }

    /// Returns the user of a session. It ends if its account or its token is no longer valid, which is checked from time to time.
    pub(crate) async fn visitor(&self, session: &SessionId, client: &Client) -> Option<Visitor> {
        let SessionId(id) = session;
        let visitor = self.sessions.user(id, Instant::now())?;
        if self.sessions.begin_check(id, Instant::now()) && !is_valid(client, &visitor).await {
            let user = &visitor.identity.user;
            info!(user, "account or token revoked; page session ended");
            self.sessions.end(id);
            return None;
        }
        Some(visitor)
    }

    /// Answers a request below `/ui/`.
    pub(crate) fn answer(&self, parts: &Parts) -> Response<Body> {
        if !is_for(&self.names, parts) {
            let text = "This is not a name of the cloud. Use the link of `cloudsim ui`.";
            return ui::message(StatusCode::MISDIRECTED_REQUEST, text).map(to_body);
        }
        let answer = match (&parts.method, parts.uri.path()) {
            (&Method::GET, LOGIN) => self.login(parts),
            (&Method::POST, LOGOUT) => self.logout(parts),
            (method, path) => ui::answer(method, path, &parts.headers),
        };
        answer.map(to_body)
    }

    fn login(&self, parts: &Parts) -> Response<Bytes> {
        if is_from_other_site(parts) {
            let text = "Another site has opened this link. If you trust it, copy the link into the address bar.";
            return ui::message(StatusCode::FORBIDDEN, text);
        }
        let query = parts.uri.query().unwrap_or_default();
        let code = form_urlencoded::parse(query.as_bytes())
            .find_map(|(name, value)| (name == "code").then_some(value));
        let now = Instant::now();
        let session = code.and_then(|code| self.sessions.begin(&code, now));
        let earlier = session_id(parts);
        let Some((id, lifetime, user)) = session else {
            if earlier.is_some_and(|id| self.sessions.user(&id, now).is_some()) {
                return ui::redirect(ui::PREFIX);
            }
            return ui::message(
                StatusCode::FORBIDDEN,
                "This login link was used or has expired. Run `cloudsim ui` to get another one.",
            );
        };
        if let Some(earlier) = earlier {
            self.sessions.end(&earlier);
        }
        info!(user = user.identity.user, "page session started");
        let cookie = format!(
            "{}={id}; Path=/; Max-Age={}; Secure; HttpOnly; SameSite=Strict",
            cookie_name(parts),
            lifetime.as_secs()
        );
        with_cookie(ui::redirect(ui::PREFIX), &cookie)
    }

    fn logout(&self, parts: &Parts) -> Response<Bytes> {
        if !is_from_page(parts) {
            return ui::message(StatusCode::FORBIDDEN, "Only the page can end its session.");
        }
        if let Some(id) = session_id(parts) {
            self.sessions.end(&id);
        }
        let cookie = format!(
            "{}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict",
            cookie_name(parts)
        );
        with_cookie(ui::message(StatusCode::OK, "Logged out."), &cookie)
    }
}

/// A login link.
#[derive(Debug)]
pub(crate) struct LoginLink {
    /// The path with its code.
    pub(crate) path: String,
    /// How long it is valid.
    pub(crate) lifetime: Duration,
}

fn with_cookie(mut response: Response<Bytes>, cookie: &str) -> Response<Bytes> {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Returns the name of the cookie. Browsers send cookies to all ports of a host, so clouds on other ports have other names.
fn cookie_name(parts: &Parts) -> String {
    let port = authority(parts).and_then(|authority| authority.rsplit_once(':'));
    let port = port.map_or("443", |(_, port)| port);
    format!("__Host-cloudsim-{port}")
}

fn session_id(parts: &Parts) -> Option<String> {
    let name = cookie_name(parts);
    cookies(&parts.headers).find_map(|(key, value)| (key == name).then(|| value.to_owned()))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

fn to_body(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

#[cfg(test)]
mod tests;
