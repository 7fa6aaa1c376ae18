//! Listens, takes connections within limits, and ends gracefully.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tower_service::Service;
use whatif_types::Principal;

use crate::access::Way;
use crate::app::Shared;
use crate::peer::Peer;
use crate::problem::{Problem, in_our_form};
use crate::start::Failure;
use crate::{feed, peer, routes};

/// A client that says nothing for so long is not waited for: neither for the rest of its headers, nor for its next request.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const LONGEST_HEADERS: usize = 64 << 10;
const MOST_HEADERS: usize = 64;
/// Connections at once: of our own user, and of everybody else. Nobody else can keep our user out.
const OWN_CONNECTIONS: usize = 512;
const OTHER_CONNECTIONS: usize = 64;
const INSIDE_CONNECTIONS: usize = 16;
const SOCKET_CONNECTIONS: usize = 128;
/// Connections of which it is not yet known whose they are.
const ARRIVING: usize = 256;
/// What is being worked on when the daemon ends gets so long.
const LAST_MOMENT: Duration = Duration::from_secs(5);
/// Waits for a client that takes nothing.
const UNTAKEN: Duration = Duration::from_secs(60);
/// Requests in the engine, commands that are waited for, and a few more.
const THREADS: usize = 640;
const STOPS: [Signal; 2] = [Signal::TERM, Signal::INT];

/// Where we are reached.
#[derive(Debug)]
pub struct Listening {
    tcp: TcpListener,
    address: SocketAddr,
    unix: Option<(UnixListener, PathBuf)>,
}

impl Listening {
    pub fn on(address: SocketAddr, socket: Option<&Path>) -> Result<Self, Failure> {
        let failed = |source| Failure::Listen { on: address.to_string(), source };
        let tcp = TcpListener::bind(address).map_err(failed)?;
        tcp.set_nonblocking(true).map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        let unix = socket.map(|path| {
            let failed = |source| Failure::Listen { on: path.display().to_string(), source };
            bind_unix(path).map(|listener| (listener, path.to_owned())).map_err(failed)
        });
        Ok(Self { tcp, address, unix: unix.transpose()? })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.unix.as_ref().map(|(_, path)| path.as_path())
    }
}

/// For its owner alone. What a daemon that was killed left there is replaced; what another one listens on is not.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() && found.uid() == rustix::process::geteuid().as_raw() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Finds out whose connections are, all that wait for it at once: a walk over all processes costs the same for one and for hundreds.
#[derive(Clone, Debug)]
struct Judge(mpsc::Sender<(SocketAddr, oneshot::Sender<Peer>)>);

impl Judge {
    fn start(to: SocketAddr) -> Self {
        let (sender, mut waiting) = mpsc::channel(ARRIVING);
        tokio::spawn(async move {
            let mut together = Vec::new();
            while waiting.recv_many(&mut together, ARRIVING).await > 0 {
                let (from, answers): (Vec<SocketAddr>, Vec<oneshot::Sender<Peer>>) = together.drain(..).unzip();
                let found = tokio::task::spawn_blocking(move || peer::of(&from, to)).await;
                let peers = found.ok().and_then(Result::ok).unwrap_or_default();
                // What cannot be told is inside.
                let peers = peers.into_iter().chain(std::iter::repeat(Peer::Inside));
                for (answer, peer) in answers.into_iter().zip(peers) {
                    // Its connection may have been given up.
                    let _ = answer.send(peer);
                }
            }
        });
        Self(sender)
    }

    async fn judge(&self, from: SocketAddr) -> Peer {
        let (answer, peer) = oneshot::channel();
        match self.0.send((from, answer)).await {
            Ok(()) => peer.await.unwrap_or(Peer::Inside),
            Err(_) => Peer::Inside,
        }
    }
}

/// How many connections there may still be, by whose they are.
#[derive(Clone, Debug)]
struct Room {
    arriving: Arc<Semaphore>,
    own: Arc<Semaphore>,
    other: Arc<Semaphore>,
    inside: Arc<Semaphore>,
    socket: Arc<Semaphore>,
}

impl Room {
    fn new() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self {
            arriving: of(ARRIVING),
            own: of(OWN_CONNECTIONS),
            other: of(OTHER_CONNECTIONS),
            inside: of(INSIDE_CONNECTIONS),
            socket: of(SOCKET_CONNECTIONS),
        }
    }

    /// Our own user waits for room. Others are sent away, so that they hold nobody up.
    async fn for_peer(&self, peer: Peer) -> Option<OwnedSemaphorePermit> {
        match peer {
            Peer::Own => self.own.clone().acquire_owned().await.ok(),
            Peer::Other => self.other.clone().try_acquire_owned().ok(),
            Peer::Inside => self.inside.clone().try_acquire_owned().ok(),
        }
    }

    fn is_empty(&self) -> bool {
        let all = [
            (&self.arriving, ARRIVING),
            (&self.own, OWN_CONNECTIONS),
            (&self.other, OTHER_CONNECTIONS),
            (&self.inside, INSIDE_CONNECTIONS),
            (&self.socket, SOCKET_CONNECTIONS),
        ];
        all.iter().all(|(room, whole)| room.available_permits() == *whole)
    }
}

/// Until a signal ends it. One thread serves; the engine works on others.
pub fn run(listening: Listening, app: Shared) -> io::Result<()> {
    // Before there are other threads.
    let signals = whatif_sys::signals::as_descriptor(&STOPS.map(Signal::as_raw))?;
    let ended = told_by(signals)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(THREADS).build()?;
    let socket = listening.socket().map(Path::to_owned);
    let served = runtime.block_on(serve(listening, app, ended));
    if let Some(socket) = socket {
        let _ = std::fs::remove_file(socket);
    }
    // Whoever waits for a command does not keep us: the command goes on, and can be asked for again.
    runtime.shutdown_timeout(Duration::ZERO);
    served
}

/// Tells when one of the signals has come.
fn told_by(signals: OwnedFd) -> io::Result<oneshot::Receiver<()>> {
    let (tell, told) = oneshot::channel();
    let wait = move || {
        while let Ok(0) | Err(Errno::INTR) = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None) {}
        let _ = tell.send(());
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(told)
}

async fn serve(listening: Listening, app: Shared, ended: oneshot::Receiver<()>) -> io::Result<()> {
    let tcp = tokio::net::TcpListener::from_std(listening.tcp)?;
    let unix = listening.unix.map(|(listener, _)| tokio::net::UnixListener::from_std(listener)).transpose()?;
    let (stopping, stopped) = watch::channel(());
    let judge = Judge::start(listening.address);
    let server = Server { router: routes::all(app.clone()), app: app.clone(), judge, room: Room::new(), stopped };
    tokio::spawn(feed::watch(app.clone()));
    tokio::select! {
        _ = ended => {}
        () = server.serve_tcp(&tcp) => {}
        () = server.serve_unix(unix.as_ref()) => {}
    }
    drop((tcp, unix));
    app.feed.close();
    let _ = stopping.send(());
    let deadline = Instant::now() + LAST_MOMENT;
    while !server.room.is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

struct Server {
    router: Router,
    app: Shared,
    judge: Judge,
    room: Room,
    stopped: watch::Receiver<()>,
}

impl Server {
    async fn serve_tcp(&self, listener: &tokio::net::TcpListener) {
        while let Ok(arriving) = self.room.arriving.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, from)) => self.take_tcp(stream, from, arriving),
                Err(error) => rest(&error).await,
            }
        }
    }

    /// Without a socket, forever nothing.
    async fn serve_unix(&self, listener: Option<&tokio::net::UnixListener>) {
        let Some(listener) = listener else { return std::future::pending().await };
        while let Ok(room) = self.room.socket.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => self.take_unix(stream, room),
                Err(error) => rest(&error).await,
            }
        }
    }

    fn take_tcp(&self, stream: tokio::net::TcpStream, from: SocketAddr, arriving: OwnedSemaphorePermit) {
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNTAKEN.as_millis() as u32);
        let (serving, room, judge) = (self.serving(), self.room.clone(), self.judge.clone());
        tokio::spawn(async move {
            // Known before the first request is answered.
            let peer = judge.judge(from).await;
            let Some(room) = room.for_peer(peer).await else { return };
            drop(arriving);
            let way = (peer != Peer::Inside).then_some(Way::Tcp);
            serving.serve(stream, way, peer == Peer::Own).await;
            drop(room);
        });
    }

    fn take_unix(&self, stream: tokio::net::UnixStream, room: OwnedSemaphorePermit) {
        let we = rustix::process::geteuid().as_raw();
        let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == we)
            && std::fs::File::open("/proc/self/fdinfo")
                .and_then(|descriptors| whatif_sys::peer::is_in_namespace(&stream, descriptors))
                .unwrap_or(false);
        if is_ours {
            let serving = self.serving();
            tokio::spawn(async move {
                serving.serve(stream, Some(Way::Socket(Principal::User { uid: we, name: None })), true).await;
                drop(room);
            });
        }
    }

    fn serving(&self) -> Serving {
        Serving { router: self.router.clone(), app: self.app.clone(), stopped: self.stopped.clone() }
    }
}

/// The machine is short of something; it is tried again in a moment.
async fn rest(error: &io::Error) {
    crate::start::note(format_args!("cannot take a connection: {error}"));
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// What one connection needs.
struct Serving {
    router: Router,
    app: Shared,
    stopped: watch::Receiver<()>,
}

impl Serving {
    /// A connection that may not stay ends with the first answer to a request without a principal.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, way: Option<Way>, may_stay: bool) {
        let Self { router, app, mut stopped } = self;
        let service = service_fn(move |request| {
            let (router, app, way) = (router.clone(), app.clone(), way.clone());
            async move { Ok::<_, Infallible>(answer(router, app, way, may_stay, request).await) }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(LONGEST_HEADERS)
            .max_headers(MOST_HEADERS);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => {}
            _ = stopped.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

async fn answer(mut router: Router, app: Shared, way: Option<Way>, may_stay: bool, request: Request<Incoming>) -> Response<Body> {
    let began = Instant::now();
    let checked = match &way {
        Some(way) => app.access.check(&request, way),
        None => Err(Problem::new(StatusCode::FORBIDDEN, "inside_sandbox", "this daemon serves no process in a sandbox")),
    };
    let closes = !may_stay && !matches!(checked, Ok(Some(_)));
    let mut response = match checked {
        Ok(principal) => {
            let mut request = request.map(Body::new);
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            // A router is always ready.
            match router.call(request).await {
                Ok(response) => in_our_form(response),
                Err(never) => match never {},
            }
        }
        Err(problem) => problem.into_response(),
    };
    if closes {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    app.metrics.answered(response.status(), began.elapsed());
    response
}
