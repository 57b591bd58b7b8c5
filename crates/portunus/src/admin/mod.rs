//! Stub.
use std::sync::Arc;
pub struct AdminState { pub reporter: Arc<crate::report::Reporter>, pub config_json: Box<dyn Fn() -> serde_json::Value + Send + Sync>, pub reload: Box<dyn Fn() -> Result<u64, Vec<String>> + Send + Sync>, pub ready: Box<dyn Fn() -> bool + Send + Sync> }
pub struct AdminHandle;
impl AdminHandle { pub fn stop(self) {} pub fn address(&self) -> String { String::new() } }
pub fn start(_: &crate::config::AdminConfig, _: AdminState) -> std::io::Result<AdminHandle> { Ok(AdminHandle) }
