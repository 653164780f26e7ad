//! Load on servers: codecs by properties, a faulty server, and the real ones where they are installed.

mod codec;
mod fake;
mod faults;
mod options;
mod real;
mod speed;
