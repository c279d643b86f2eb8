//! One question and its answer, in the protocol of Redis: the test kit names no driver.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(2);

/// Says a command on a connection of its own, and returns the answer as text: an array as lines, an error
/// with its code, nothing as nothing.
pub(super) fn talk(server: SocketAddr, words: &[&str]) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, CONNECT)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let mut said = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        said.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    stream.write_all(&said)?;
    answer(&mut BufReader::new(stream))
}

fn answer(from: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is none");
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(bad)?;
    if matches!(kind, "+" | "-" | ":") {
        return Ok(rest.to_owned());
    }
    // Nothing has a length below zero.
    let Ok(count) = rest.parse::<usize>() else {
        return Ok(String::new());
    };
    match kind {
        "$" => {
            let mut bytes = vec![0; count + 2];
            from.read_exact(&mut bytes)?;
            bytes.truncate(count);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
        "*" => {
            let lines: io::Result<Vec<_>> = (0..count).map(|_| answer(from)).collect();
            Ok(lines?.join("\n"))
        }
        _ => Err(bad()),
    }
}
