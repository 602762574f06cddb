// Rewords the option parser's errors.
#include "usage.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "help.hpp"
#include <cenote/url.hpp>

namespace command {

namespace {

/// Without a value: `-pSECRET` and `--password=SECRET` are options of other programs.
std::string name_of(const std::string& option) {
    return option.starts_with("--") ? option.substr(0, option.find('=')) : option.substr(0, 2);
}

std::string unknown_option(const std::string& argument, const CLI::App& of) {
    std::string name = name_of(argument);
    std::string closest = closest_option(name, of);
    return "unknown option " + name + (closest.empty() ? "" : "; did you mean " + closest + "?");
}

std::string about_subcommand(const CLI::App& app) {
    for (const std::string& argument : app.remaining()) {
        if (argument.starts_with('-')) return unknown_option(argument, app);
        std::string closest = closest_subcommand(argument, app);
        return "unknown subcommand '" + argument + "'" +
               (closest.empty() ? "" : "; did you mean '" + closest + "'?");
    }
    return "no subcommand given";
}

std::string too_many_arguments(const CLI::App& of) {
    for (const CLI::Option* each : of.get_options([](const CLI::Option*) { return true; }))
        if (each->get_positional())
            return of.get_name() + " takes only the argument " + each->get_name() + ", and options";
    return of.get_name() + " takes options only";
}

/// "--max: 1 required UINT missing"
std::string missing_value(const std::string& text, const CLI::App& of) {
    std::string name = text.substr(0, text.find(':'));
    const CLI::Option* option = of.get_option_no_throw(name);
    if (option == nullptr) return text;
    std::string value = value_placeholder(*option);
    return name + " needs a value: " + value.substr(0, value.find('='));
}

void replace(std::string& in, std::string_view what, std::string_view by) {
    std::size_t at = in.find(what);
    if (at != std::string::npos) in.replace(at, what.size(), by);
}

}  // namespace

std::string describe(const CLI::App& app, const CLI::ParseError& e) {
    if (app.get_subcommands().empty()) return about_subcommand(app);
    const CLI::App& chosen = *app.get_subcommands().front();
    std::vector<std::string> left = chosen.remaining();
    for (const std::string& argument : left)
        if (argument.starts_with('-') && argument.size() > 1)
            return unknown_option(argument, chosen);
    if (!left.empty()) return too_many_arguments(chosen);
    std::string text = e.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&e) != nullptr)
        return missing_value(text, chosen);
    if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr && text.ends_with(" is required"))
        return "the argument " + text.substr(0, text.find(' ')) + " is missing";
    if (dynamic_cast<const CLI::ExcludesError*>(&e) != nullptr) {
        replace(text, " excludes ", " and ");
        return text + " cannot be combined";
    }
    if (dynamic_cast<const CLI::ConversionError*>(&e) != nullptr) {
        replace(text, "Could not convert: ", "");
        replace(text, " = ", " must be a whole number, not '");
        return text + "'";
    }
    replace(text, ": must be", " must be");
    return text;
}

void refuse_split_notation(const CLI::App& subcommand, const std::vector<std::string>& arguments) {
    constexpr std::array<std::string_view, 8> clients{
        "psql", "pgcli", "mysql", "mariadb", "mycli", "redis-cli", "valkey-cli", "sqlite3"};
    constexpr std::array<std::string_view, 9> keys{
        "host=",     "hostaddr=", "port=",    "dbname=", "user=",
        "username=", "password=", "sslmode=", "service="};
    if (subcommand.get_option_no_throw("URL") == nullptr) return;
    std::string pairs;
    std::size_t count = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        std::string_view one = arguments[i];
        bool is_client =
            std::ranges::find(clients, one) != clients.end() && i + 1 < arguments.size();
        if (is_client) {
            std::string line;
            for (; i < arguments.size(); ++i) line += "'" + arguments[i] + "' ";
            cenote::url::parse(line);
            return;
        }
        if (std::ranges::none_of(keys, [&](auto key) { return one.starts_with(key); })) continue;
        pairs += arguments[i] + " ";
        ++count;
    }
    if (count > 1) cenote::url::parse(pairs);
}

}  // namespace command
