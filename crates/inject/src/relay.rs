//! One connection from its first request to its end.
//!
//! Requests are relayed one at a time: the next is read once the one before is answered. A client that sends several at once
//! gets its answers in order, as it would from any server, and whatever is refused is answered in its place. Until a request
//! was judged, nothing of it goes to the server.

use std::future::pending;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::time::{sleep, timeout};
use whatif_netpolicy::http::{Body, Head, Upgrade};

use crate::answer::{self, Refusal};
use crate::destination::Destination;
use crate::download::{self, After, Asked, DownloadError, MOST_HELD, QUIET};
use crate::frames::Frames;
use crate::known::Known;
use crate::mask::{Masker, Masks};
use crate::request::{self, Request};
use crate::rewrite;
use crate::totals::{Outcome, Totals};
use crate::upload::{self, Incoming, UploadError};

/// A client that asks for nothing for so long is cut off.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A client that says it will ask for nothing more may still read; one that is gone looks the same for a while.
const AFTER_LAST_WORD: Duration = Duration::from_secs(60);
/// What is read of later requests while one is answered.
const MOST_AHEAD: usize = 32 * 1024;
/// What a refused client still sends is read for a moment, or its system would throw the answer away.
const LINGER: Duration = Duration::from_secs(2);
const MOST_LINGERED: usize = 1024 * 1024;

/// What is known about the connection before its first request.
pub(crate) struct Relay<'a, J> {
    pub(crate) to: &'a Destination,
    pub(crate) secrets: &'a [Known],
    /// What is crossed out of the answers.
    pub(crate) masks: Masks,
    pub(crate) judge: J,
    pub(crate) totals: Totals,
}

/// How a connection ends.
enum Ending {
    /// Both sides are done.
    Clean,
    /// The client gets this instead of an answer of the server's.
    Answer { refusal: Refusal, is_head: bool, outcome: Outcome },
    /// In the middle of something. The client must not take what it has for whole.
    Broken(String),
}

struct Client<C> {
    reads: Incoming<ReadHalf<C>>,
    writes: WriteHalf<C>,
}

struct Server<S> {
    reads: Incoming<ReadHalf<S>>,
    writes: WriteHalf<S>,
}

impl<J: FnMut(&Head) -> Result<(), String>> Relay<'_, J> {
    /// Relays to the end. Where there is no server to speak to, the client's first request is answered with the reason.
    pub(crate) async fn run<C, S>(mut self, client: C, server: Result<S, String>) -> Totals
    where
        C: AsyncRead + AsyncWrite,
        S: AsyncRead + AsyncWrite,
    {
        let (reads, writes) = split(client);
        let mut client = Client { reads: Incoming::new(reads), writes };
        let ending = match server {
            Ok(server) => {
                let (reads, writes) = split(server);
                let mut server = Server { reads: Incoming::new(reads), writes };
                let ending = self.serve(&mut client, &mut server).await;
                if matches!(ending, Ending::Clean) {
                    // The server may be gone; it is not waited for.
                    let _ = timeout(LINGER, server.writes.shutdown()).await;
                }
                ending
            }
            Err(text) => self.excuse(&mut client, text).await,
        };
        self.end(client, ending).await;
        self.totals
    }

    async fn serve<C, S>(&mut self, client: &mut Client<C>, server: &mut Server<S>) -> Ending
    where
        C: AsyncRead + AsyncWrite,
        S: AsyncRead + AsyncWrite,
    {
        loop {
            let request = match self.next_request(client, server).await {
                Ok(request) => request,
                Err(ending) => return ending,
            };
            self.totals.requests += 1;
            self.totals.sent += count(request.taken);
            let is_head = request.head.method == "HEAD";
            let rewritten = match self.prepare(&request) {
                Ok(rewritten) => rewritten,
                Err(refusal) => {
                    let outcome = Outcome::Refused(refusal.text.clone());
                    return Ending::Answer { refusal, is_head, outcome };
                }
            };
            self.totals.replaced += rewritten.replaced;
            rewritten.encoded.iter().for_each(|text| self.masks.add(text));
            if let Some(left) = rewritten.left.filter(|_| self.totals.left.is_none()) {
                self.totals.left = Some(left.to_string());
            }
            match self.exchange(client, server, &request, &rewritten.head).await {
                Ok(After::AnotherRequest) => {}
                Ok(After::Nothing) => return Ending::Clean,
                Ok(After::Switched) => return self.tunnel(client, server).await,
                Err(ending) => return ending,
            }
        }
    }

    /// Waits for the head of the next request.
    async fn next_request<C, S>(&mut self, client: &mut Client<C>, server: &mut Server<S>) -> Result<Request, Ending>
    where
        C: AsyncRead + AsyncWrite,
        S: AsyncRead + AsyncWrite,
    {
        let mut pause = pin!(sleep(LONGEST_PAUSE));
        loop {
            if let Some(request) = take_request(&mut client.reads)? {
                return Ok(request);
            }
            tokio::select! {
                biased;
                outcome = client.reads.fill() => check_more(&client.reads, &outcome)?,
                // It closes, or speaks though nobody asked it.
                outcome = server.reads.fill() => return Err(self.server_left(client, &outcome).await),
                () = &mut pause => return Err(Ending::Clean),
            }
        }
    }

    /// Before the first request that is a failure to tell about; later it is how servers end idle connections.
    async fn server_left<C: AsyncRead + AsyncWrite>(&mut self, client: &mut Client<C>, outcome: &io::Result<usize>) -> Ending {
        if self.totals.requests > 0 {
            return Ending::Clean;
        }
        let why = match outcome {
            Ok(0) => "it closed the connection".to_owned(),
            Ok(_) => "it speaks before it is asked".to_owned(),
            Err(error) => error.to_string(),
        };
        let text = format!("{} cannot be used: {why}", self.to);
        self.excuse(client, text).await
    }

    /// Lets the client ask and tells it why there is no answer.
    async fn excuse<C: AsyncRead + AsyncWrite>(&mut self, client: &mut Client<C>, text: String) -> Ending {
        let mut pause = pin!(sleep(LONGEST_PAUSE));
        let is_head = loop {
            match take_request(&mut client.reads) {
                Ok(Some(request)) => break request.head.method == "HEAD",
                Ok(None) => {}
                Err(_) => break false,
            }
            tokio::select! {
                outcome = client.reads.fill() => if let Err(ending) = check_more(&client.reads, &outcome) {
                    return match ending {
                        Ending::Clean => Ending::Broken(text),
                        other => other,
                    };
                },
                () = &mut pause => return Ending::Broken(text),
            }
        };
        Ending::Answer { refusal: Refusal::new(502, text.clone()), is_head, outcome: Outcome::Failed(text) }
    }

    /// Judges a request and puts the secrets in.
    fn prepare(&mut self, request: &Request) -> Result<rewrite::Rewritten, Refusal> {
        request::check(&request.head, self.to)?;
        (self.judge)(&request.head).map_err(|text| Refusal::new(403, text))?;
        rewrite::rewrite(&request.text, self.secrets).map_err(|error| Refusal::new(431, error.to_string()))
    }

    /// One request and its answer.
    async fn exchange<C, S>(
        &mut self,
        client: &mut Client<C>,
        server: &mut Server<S>,
        request: &Request,
        head: &[u8],
    ) -> Result<After, Ending>
    where
        C: AsyncRead + AsyncWrite,
        S: AsyncRead + AsyncWrite,
    {
        if request.waits && upload::write(&mut client.writes, b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err() {
            return Err(client_left());
        }
        let is_head = request.head.method == "HEAD";
        let asked = Asked { is_head, is_websocket: request.head.upgrade == Some(Upgrade::WebSocket) };
        let (mut sent, mut received) = (0, 0);
        let outcome = {
            let mut masker = Masker::new(&self.masks);
            let download = pin!(download::receive(&mut server.reads, &mut client.writes, asked, &mut masker, &mut received));
            let upload =
                Upload { client: &mut client.reads, server: &mut server.writes, head, body: request.head.body, sent: &mut sent };
            upload.beside(download).await
        };
        (self.totals.sent, self.totals.received) = (self.totals.sent + sent, self.totals.received + received);
        outcome.map_err(|failure| self.ending_of(failure, received > 0, is_head))
    }

    fn ending_of(&self, failure: Failure, is_answered: bool, is_head: bool) -> Ending {
        let refused = |text: String| (Refusal::new(400, text.clone()), Outcome::Refused(text));
        let failed = |text: String| (Refusal::new(502, text.clone()), Outcome::Failed(text));
        let (refusal, outcome) = match failure {
            Failure::Client => return client_left(),
            Failure::Chunk(error) => refused(error.to_string()),
            Failure::Download(DownloadError::Client) => return client_left(),
            // A client whose connection just closes knows that it may try again on a new one.
            Failure::Download(DownloadError::Server) if !is_answered && self.totals.requests > 1 => return Ending::Clean,
            Failure::Download(DownloadError::Server) => failed(format!("{} closed the connection in the middle", self.to)),
            Failure::Download(DownloadError::Malformed(error)) => {
                failed(format!("the answer of {} is malformed: {error}", self.to))
            }
            Failure::Download(DownloadError::Switches) => failed(format!("{} changes the protocol unasked", self.to)),
        };
        if is_answered { Ending::Broken(refusal.text) } else { Ending::Answer { refusal, is_head, outcome } }
    }

    /// From here on neither side speaks HTTP.
    async fn tunnel<C, S>(&mut self, client: &mut Client<C>, server: &mut Server<S>) -> Ending
    where
        C: AsyncRead + AsyncWrite,
        S: AsyncRead + AsyncWrite,
    {
        let up = pump(&mut client.reads, &mut server.writes, &mut self.totals.sent);
        let masker = Masker::new(&self.masks);
        let down = pump_masked(&mut server.reads, &mut client.writes, masker, &mut self.totals.received);
        match tokio::try_join!(up, down) {
            Ok(_) => Ending::Clean,
            Err(error) => Ending::Broken(error.to_string()),
        }
    }

    async fn end<C: AsyncRead + AsyncWrite>(&mut self, mut client: Client<C>, ending: Ending) {
        match ending {
            Ending::Clean => {}
            Ending::Broken(text) => {
                self.totals.outcome = Outcome::Failed(text);
                return;
            }
            Ending::Answer { refusal, is_head, outcome } => {
                self.totals.outcome = outcome;
                self.totals.received += timeout(LINGER, answer::send(&mut client.writes, &refusal, is_head)).await.unwrap_or(0);
            }
        }
        let _ = timeout(LINGER, linger(&mut client)).await;
    }
}

/// Why a request or its answer did not come through.
enum Failure {
    Client,
    Chunk(whatif_netpolicy::chunks::ChunkError),
    Download(DownloadError),
}

/// The sending half of one request.
struct Upload<'a, R, W> {
    client: &'a mut Incoming<R>,
    server: &'a mut W,
    head: &'a [u8],
    body: Body,
    sent: &'a mut u64,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Upload<'_, R, W> {
    /// Sends while the answer is received: servers may answer before they have read it all, or instead.
    async fn beside<D>(self, mut download: Pin<&mut D>) -> Result<After, Failure>
    where
        D: Future<Output = Result<After, DownloadError>>,
    {
        {
            let mut upload = pin!(upload::send(self.client, self.server, self.head, self.body, self.sent));
            tokio::select! {
                outcome = &mut upload => match outcome {
                    Ok(()) => {}
                    // It may have said why.
                    Err(UploadError::Server) => return download.await.map(|_| After::Nothing).map_err(Failure::Download),
                    Err(UploadError::Client) => return Err(Failure::Client),
                    Err(UploadError::Chunk(error)) => return Err(Failure::Chunk(error)),
                },
                outcome = &mut download => {
                    let after = outcome.map_err(Failure::Download)?;
                    // The rest of the body still belongs to this request.
                    return match after {
                        After::AnotherRequest if upload.await.is_err() => Ok(After::Nothing),
                        after => Ok(after),
                    };
                }
            }
        }
        tokio::select! {
            outcome = download => outcome.map_err(Failure::Download),
            () = watch(self.client) => Err(Failure::Client),
        }
    }
}

fn take_request<R>(client: &mut Incoming<R>) -> Result<Option<Request>, Ending> {
    match request::parse(&client.buffer) {
        Ok(request) => {
            client.buffer.drain(..request.as_ref().map_or(0, |request| request.taken));
            Ok(request)
        }
        Err(refusal) => {
            let outcome = Outcome::Refused(refusal.text.clone());
            Err(Ending::Answer { refusal, is_head: false, outcome })
        }
    }
}

fn check_more<R>(client: &Incoming<R>, outcome: &io::Result<usize>) -> Result<(), Ending> {
    match outcome {
        Ok(1..) => Ok(()),
        _ if client.buffer.is_empty() => Err(Ending::Clean),
        _ => Err(client_left()),
    }
}

fn client_left() -> Ending {
    Ending::Broken("the client broke off in the middle".to_owned())
}

/// Returns when the client is gone. What it sends meanwhile is kept, up to a limit.
async fn watch<R: AsyncRead + Unpin>(client: &mut Incoming<R>) {
    loop {
        if client.buffer.len() >= MOST_AHEAD {
            return pending().await;
        }
        match client.fill().await {
            Ok(1..) => {}
            Ok(0) => return sleep(AFTER_LAST_WORD).await,
            Err(_) => return,
        }
    }
}

/// Copies to the end and says so on the other side.
async fn pump<R, W>(from: &mut Incoming<R>, to: &mut W, counted: &mut u64) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        if !from.buffer.is_empty() {
            upload::write(to, &from.buffer).await?;
            *counted += count(from.buffer.len());
            from.buffer.clear();
        }
        if from.fill().await? == 0 {
            return to.shutdown().await;
        }
    }
}

/// The same without the secrets in it. In a conversation one side may wait for the other, so nothing is held back for long.
async fn pump_masked<R, W>(from: &mut Incoming<R>, to: &mut W, mut masker: Masker<'_>, counted: &mut u64) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut frames = Frames::default();
    loop {
        frames.push(&from.buffer, &mut masker);
        from.buffer.clear();
        *counted += pass_ready(&mut masker, to).await?;
        // A message that does not end must not take up all memory.
        if masker.held() > MOST_HELD {
            masker.release();
            *counted += pass_ready(&mut masker, to).await?;
        }
        let filled = match timeout(QUIET, from.fill()).await {
            Ok(filled) => filled?,
            Err(_) => {
                masker.release();
                *counted += pass_ready(&mut masker, to).await?;
                from.fill().await?
            }
        };
        if filled == 0 {
            masker.finish();
            *counted += pass_ready(&mut masker, to).await?;
            return to.shutdown().await;
        }
    }
}

async fn pass_ready<W: AsyncWrite + Unpin>(masker: &mut Masker<'_>, to: &mut W) -> io::Result<u64> {
    let ready = masker.ready().len();
    upload::write(to, masker.ready()).await?;
    masker.pass(ready);
    Ok(count(ready))
}

async fn linger<C: AsyncRead + AsyncWrite>(client: &mut Client<C>) {
    if client.writes.shutdown().await.is_err() {
        return;
    }
    let mut thrown_away = 0;
    while thrown_away < MOST_LINGERED {
        client.reads.buffer.clear();
        match client.reads.fill().await {
            Ok(some @ 1..) => thrown_away += some,
            _ => return,
        }
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
