use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use tickwheel_jobs_web::Dashboard;

fn routes(dashboard: Dashboard) -> Router {
    Router::new()
        .nest_service("/admin/jobs/", dashboard)
        .route("/admin/jobs", get(|| async { Redirect::permanent("/admin/jobs/") }))
}
