//! A fleet as its operator sees it: the real program as command and as nodes, and a real etcd (the Debian package etcd-server).

mod certificates;
mod demo;
mod orders;
mod rolling;
mod serving;
mod sessions;
mod site;
