package sockaddr

// Added by `operetta build`: a process has no routes, as on the platforms that this module knows to
// have none.

func getDefaultIfName() (string, error) {
	return "", ErrNoInterface
}

// NewRouteInfo fails, because there are no routes.
func NewRouteInfo() (routeInfo, error) {
	return routeInfo{}, ErrNoRoute
}

// GetDefaultInterfaceName fails, because no interface has a route.
func (ri routeInfo) GetDefaultInterfaceName() (string, error) {
	return "", ErrNoInterface
}
