// Boost.JSON itself, compiled here and nowhere else.
#include <boost/json/src.hpp>
