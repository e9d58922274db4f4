//! Answers requests for metrics over HTTP, on a thread of its own.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use destage_engine::{ControlReply, ServiceCommand, order};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Mutex, Semaphore, oneshot};

use crate::text::open_metrics;

/// Limits the connections at a time; those beyond wait to be accepted.
const CONNECTIONS: usize = 16;
/// Limits how long a connection may take, from its beginning to its end: Prometheus opens a new one if it is closed.
const CONNECTION_TIME: Duration = Duration::from_mins(1);
/// Limits how long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Limits the bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// Limits how long the service may take to say how it is.
const STATUS_TIME: Duration = Duration::from_secs(5);
/// Sets how long nobody is accepted when the system has no descriptors or memory for it.
const PAUSE: Duration = Duration::from_millis(200);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Says why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Tells that others than this machine could read them.
    #[error(
        "metrics = \"{0}\": whoever reaches this address could read them; expected an address of this machine alone, such as \
         127.0.0.1:{port}, or metrics-open = true in [serve]",
        port = .0.port()
    )]
    Open(SocketAddr),
    /// Tells that the address cannot be used.
    #[error("cannot serve metrics at {address}: {source}")]
    Address {
        /// Gives the address.
        address: SocketAddr,
        /// Says why not.
        source: io::Error,
    },
    /// Tells that the system has no thread for it.
    #[error("cannot serve metrics: {0}")]
    Thread(io::Error),
}

/// Answers requests for metrics until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves the metrics of the service that takes orders at `control`. Addresses that other machines reach are refused unless
    /// `is_open`.
    ///
    /// # Errors
    /// Says why it cannot be.
    pub fn start(address: SocketAddr, is_open: bool, control: &Path) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() && !is_open {
            return Err(MetricsError::Open(address));
        }
        let failed = |source| MetricsError::Address { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = runtime.map_err(MetricsError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let served = Arc::new(ServedMetrics { control: control.to_owned(), one_at_a_time: Mutex::new(()) });
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, served) => {}
                    _ = stopped => {}
                }
            });
            // A status that is being waited for is given up.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(run).map_err(MetricsError::Thread)?;
        Ok(Self { address: bound, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address, with the port that the system chose where it was to choose one.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.stop.take().map(|stop| stop.send(()));
        let _panicked = self.thread.take().map(JoinHandle::join);
    }
}

/// Holds what all connections share.
struct ServedMetrics {
    control: PathBuf,
    /// Has one status asked for at a time, so that readers of metrics take one of the service's control connections.
    one_at_a_time: Mutex<()>,
}

/// Accepts connections for ever.
async fn accept(listener: TcpListener, served: Arc<ServedMetrics>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let served = Arc::clone(&served);
        tokio::spawn(async move {
            let _place = place;
            let respond = service_fn(move |request| respond(request, Arc::clone(&served)));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), respond);
            // What goes wrong with a connection is its client's concern.
            let _ended = tokio::time::timeout(CONNECTION_TIME, connection).await;
        });
    }
}

/// Answers a request.
async fn respond(request: Request<Incoming>, served: Arc<ServedMetrics>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match (is_get, request.uri().path()) {
        (true, "/metrics") => metrics(&served).await,
        (true, "/") => plain(StatusCode::OK, "destage: metrics are at /metrics\n".to_owned()),
        (true, _) => plain(StatusCode::NOT_FOUND, "there is nothing here; metrics are at /metrics\n".to_owned()),
        (false, _) => plain(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD\n".to_owned()),
    };
    if !is_get {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}

async fn metrics(served: &ServedMetrics) -> Response<Full<Bytes>> {
    let _alone = served.one_at_a_time.lock().await;
    let control = served.control.clone();
    // The control socket is waited for on a thread that may wait.
    let asked = tokio::task::spawn_blocking(move || order(&control, &ServiceCommand::Status, STATUS_TIME)).await;
    match asked {
        Ok(Ok(ControlReply::Status(status))) => {
            let mut response = Response::new(Full::new(Bytes::from(open_metrics(&status))));
            response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
            response
        }
        Ok(Ok(_)) => plain(StatusCode::SERVICE_UNAVAILABLE, "the service did not say how it is\n".to_owned()),
        Ok(Err(error)) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the service ends\n".to_owned()),
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}
