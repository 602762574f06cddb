// Boost.Asio and Boost.Beast, compiled once here instead of in every source file that uses them.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
