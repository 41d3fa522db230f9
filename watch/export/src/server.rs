// SPDX-License-Identifier: GPL-2.0-only
//! The last counters, over HTTP. One thread; whoever asks gets what was counted last, and costs no look at the kernel.

use crate::Form;
use ceasefire_base::{Error, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response};

/// Longest time until the end is noticed.
const POLL: Duration = Duration::from_millis(500);
const PAGE: &str = "<!doctype html><title>ceasefire watch export</title>\
    <p>Counters of TLB shootdowns: <a href=\"/metrics\">/metrics</a>\n";

#[derive(Default)]
struct Shared {
    /// OpenMetrics, and the older form.
    texts: Mutex<[String; 2]>,
    is_over: AtomicBool,
}

pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `address`: HOST:PORT. Errors: it is none, or cannot be listened on.
    pub fn listen(address: &str) -> Result<Server> {
        let remedy = "--listen 127.0.0.1:9986, or another port";
        let all: Vec<SocketAddr> = address
            .to_socket_addrs()
            .map_err(|error| Error::usage(format!("{address} is no address: {error}")).remedy(remedy))?
            .collect();
        let server = tiny_http::Server::http(&all[..])
            .map_err(|error| Error::failed(format!("cannot listen on {address}: {error}")).remedy(remedy))?;
        let address = server
            .server_addr()
            .to_ip()
            .ok_or_else(|| Error::failed(format!("{address} is no internet address")).remedy(remedy))?;
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("export".into())
            .spawn(move || serve(&server, &its))
            .map_err(|error| Error::failed(format!("no thread for the server: {error}")))?;
        Ok(Server { shared, address, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn show(&self, open_metrics: String, prometheus: String) {
        *self.shared.texts.lock().unwrap_or_else(PoisonError::into_inner) = [open_metrics, prometheus];
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(server: &tiny_http::Server, shared: &Shared) {
    while !shared.is_over.load(Ordering::Relaxed) {
        match server.recv_timeout(POLL) {
            // Who has hung up is no concern of ours.
            Ok(Some(request)) => drop(answer(request, shared)),
            Ok(None) => {}
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

fn answer(request: Request, shared: &Shared) -> std::io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    let (code, kind, text) = match (request.method(), path) {
        (Method::Get | Method::Head, "/metrics") => {
            let form = form(&request);
            let texts = shared.texts.lock().unwrap_or_else(PoisonError::into_inner);
            (200, form.content_type(), texts[usize::from(form == Form::Prometheus)].clone())
        }
        (Method::Get | Method::Head, "/") => (200, "text/html; charset=utf-8", PAGE.to_string()),
        (Method::Get | Method::Head, _) => (404, "text/plain", "there is /metrics alone\n".to_string()),
        _ => (405, "text/plain", "GET alone\n".to_string()),
    };
    let response = Response::from_string(text).with_status_code(code);
    match Header::from_bytes("Content-Type", kind) {
        Ok(header) => request.respond(response.with_header(header)),
        Err(()) => request.respond(response),
    }
}

fn form(request: &Request) -> Form {
    let accepts = request.headers().iter().find(|header| header.field.equiv("Accept"));
    match accepts.is_some_and(|header| header.value.as_str().contains("application/openmetrics-text")) {
        true => Form::OpenMetrics,
        false => Form::Prometheus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connected");
        write!(stream, "{request}\r\nHost: x\r\nConnection: close\r\n\r\n").expect("written");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("read");
        text
    }

    #[test]
    fn who_asks_gets_the_form_that_it_reads() {
        let server = Server::listen("127.0.0.1:0").expect("a port");
        server.show("open".into(), "old".into());
        let at = server.address();
        let open = ask(at, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*");
        assert!(open.contains("openmetrics-text; version=1.0.0") && open.ends_with("open"), "{open}");
        let old = ask(at, "GET /metrics?x=1 HTTP/1.1");
        assert!(old.contains("version=0.0.4") && old.ends_with("old"), "{old}");
        for (request, status) in
            [("GET / HTTP/1.1", "200"), ("GET /x HTTP/1.1", "404"), ("POST /metrics HTTP/1.1", "405")]
        {
            assert!(ask(at, request).starts_with(&format!("HTTP/1.1 {status}")), "{request}");
        }
        let taken = Server::listen(&at.to_string()).err().expect("the port is taken");
        assert!(taken.to_string().contains("cannot listen"), "{taken}");
        assert!(Server::listen("nowhere").is_err());
    }
}
