// The HTTP interface of the orders service.
#pragma once

#include <cenote/database.hpp>
#include <cenote/http_server.hpp>
#include <cenote/service.hpp>

namespace orders_service {

///     GET  /orders?after=0&limit=20        POST /orders/7/pay
///     POST /orders                         POST /orders/7/cancel
///     GET  /orders/7                       GET  /health, /ready, /metrics
///
/// Both arguments must outlive the handler.
cenote::http_server::handler make_api(cenote::database& db, const cenote::service& about);

}  // namespace orders_service
