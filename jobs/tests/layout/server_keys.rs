//! The keys of a server as lines of text: one JSON array for each, with its name, its type and its contents in
//! hexadecimal digits. So they can be read by any version of the server.

use std::fmt::Write;

use crate::server::Server;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// Reads every key that does not expire.
pub(crate) fn read(server: &Server) -> String {
    let mut connection = server.connection();
    let mut keys: Vec<String> = server.ask(&["KEYS", "*"]);
    keys.sort();
    let mut lines = String::new();
    for key in keys.iter().filter(|key| !key.contains(":sent:")) {
        let of: String = server.ask(&["TYPE", key]);
        let mut read = match &*of {
            "hash" => redis::cmd("HGETALL"),
            "set" => redis::cmd("SMEMBERS"),
            _ => redis::cmd("ZRANGE"),
        };
        read.arg(key);
        if of == "zset" {
            read.arg(0).arg(-1).arg("WITHSCORES");
        }
        let parts: Vec<Vec<u8>> = read.query(&mut connection).unwrap();
        let parts: Vec<String> = parts.iter().map(|part| hex(part)).collect();
        lines += &(serde_json::to_string(&(key, of, parts)).unwrap() + "\n");
    }
    lines
}

/// Writes the keys to an empty server.
pub(crate) fn write(server: &Server, lines: &str) {
    let mut connection = server.connection();
    for line in lines.lines() {
        let (key, of, parts): (String, String, Vec<String>) = serde_json::from_str(line).unwrap();
        let mut parts: Vec<Vec<u8>> = parts.iter().map(|part| unhex(part)).collect();
        let name = match &*of {
            "hash" => "HSET",
            "set" => "SADD",
            _ => "ZADD",
        };
        if of == "zset" {
            // The command takes the score before the member.
            parts.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        redis::cmd(name).arg(key).arg(parts).exec(&mut connection).unwrap();
    }
}
