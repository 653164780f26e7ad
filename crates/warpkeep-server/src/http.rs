//! `/metrics`, `/healthz` and `/readyz`, for those who watch.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tiny_http::{Header, Method, Response};

use crate::ServerError;
use crate::counters::Counters;

/// How often it is asked whether to stop.
const ASK: Duration = Duration::from_millis(50);

/// What adds to the metrics.
type More = Box<dyn Fn() -> String + Send>;

/// Answers HTTP until it is dropped.
pub(crate) struct Http {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    counters: Arc<Counters>,
    ready: AtomicBool,
    stopping: AtomicBool,
    more: Mutex<Option<More>>,
}

impl Http {
    pub(crate) fn start(address: SocketAddr, counters: &Arc<Counters>) -> Result<Http, ServerError> {
        let failed = |what: String| ServerError::Http { address, what };
        let server = tiny_http::Server::http(address).map_err(|error| failed(error.to_string()))?;
        let address = server.server_addr().to_ip().unwrap_or(address);
        let state = Arc::new(State {
            counters: Arc::clone(counters),
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            more: Mutex::new(None),
        });
        let theirs = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || theirs.run(&server));
        let thread = thread.map_err(ServerError::io("start a thread"))?;
        Ok(Http { address, state, thread: Some(thread) })
    }

    pub(crate) fn add_metrics(&self, more: More) {
        *self.state.more.lock() = Some(more);
    }

    /// Whether the server takes commands.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.state.ready.store(ready, Ordering::Release);
    }
}

impl State {
    fn run(&self, server: &tiny_http::Server) {
        while !self.stopping.load(Ordering::Acquire) {
            match server.recv_timeout(ASK) {
                Ok(None) => {}
                Ok(Some(request)) => {
                    let (code, text) = self.answer(request.method(), request.url());
                    let plain =
                        Header::from_bytes("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
                    let mut response = Response::from_string(text).with_status_code(code);
                    if let Ok(plain) = plain {
                        response.add_header(plain);
                    }
                    // Whoever asked may be gone.
                    let _ = request.respond(response);
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP request was not read");
                    std::thread::sleep(ASK);
                }
            }
        }
    }

    fn answer(&self, method: &Method, url: &str) -> (u16, String) {
        if !matches!(method, Method::Get | Method::Head) {
            return (405, "only GET is possible\n".to_owned());
        }
        match url.split('?').next().unwrap_or_default() {
            "/metrics" => {
                let mut text = self.counters.prometheus();
                if let Some(more) = &*self.more.lock() {
                    text += &more();
                }
                (200, text)
            }
            "/healthz" => (200, "alive\n".to_owned()),
            "/readyz" if self.ready.load(Ordering::Acquire) => match self.counters.trouble() {
                None => (200, "ready\n".to_owned()),
                Some(why) => (503, format!("not ready: {why}\n")),
            },
            "/readyz" => (503, "not ready: the store is being opened or closed\n".to_owned()),
            _ => (404, "there are /metrics, /healthz and /readyz\n".to_owned()),
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by its thread.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("address", &self.address).finish_non_exhaustive()
    }
}
